// Read and write the nodes and constants of an ONNX graph; everything else is copied. Field numbers are onnx.proto's.

import { Writer, fieldsOf } from "../protobuf.mjs";
import { decodePiece } from "../tokenizer/utf8.mjs";

/** @typedef {import("../protobuf.mjs").Field} Field */
/** @typedef {{ op: string, domain: string, inputs: string[], outputs: string[], attributes: Uint8Array[], name: string }} Node */
/** @typedef {{ name: string, type: number, dims: number[], raw: Uint8Array, external: { location: string, offset: number } | null, message: Uint8Array | null }} Constant */

export const FLOAT = 1, UINT8 = 2, INT8 = 3, BFLOAT16 = 16;
const MODEL = { graph: 7 }, GRAPH = { node: 1, initializer: 5, output: 12, valueInfo: 13 };
const EXTERNAL = 1;

/** A graph whose nodes and constants can be replaced. */
export class OnnxGraph {
  /** @type {Node[]} */
  nodes = [];
  /** @type {Map<string, Constant>} */
  constants = new Map();
  /** @type {string[]} */
  outputs = [];
  /** @type {Field[]} */
  #modelFields;
  /** @type {Field[]} */
  #graphFields = [];

  /** @param {Uint8Array} file */
  constructor(file) {
    this.#modelFields = [...fieldsOf(file)];
    const graph = this.#modelFields.find(field => field.number === MODEL.graph);
    for (const field of graph ? fieldsOf(graph.bytes) : []) {
      if (field.number === GRAPH.node) this.nodes.push(readNode(field.bytes));
      else if (field.number === GRAPH.initializer) {
        const constant = readConstant(field.bytes);
        this.constants.set(constant.name, constant);
      } else if (field.number !== GRAPH.valueInfo) this.#graphFields.push(field);
      if (field.number === GRAPH.output) this.outputs.push(textField(field.bytes, 1));
    }
  }

  /** @returns {Uint8Array} */
  toBytes() {
    const graph = new Writer();
    for (const node of this.nodes) graph.bytes(GRAPH.node, writeNode(node));
    for (const constant of this.constants.values()) graph.bytes(GRAPH.initializer, constant.message ?? writeConstant(constant));
    for (const field of this.#graphFields) graph.copy(field);
    const model = new Writer();
    for (const field of this.#modelFields) {
      if (field.number === MODEL.graph) model.bytes(MODEL.graph, graph.finish());
      else model.copy(field);
    }
    return model.finish();
  }

  /** Remove nodes and constants that no output depends on. */
  removeUnused() {
    const needed = new Set(this.outputs);
    for (const node of this.nodes.toReversed())
      if (node.outputs.some(name => needed.has(name))) node.inputs.forEach(name => needed.add(name));
    this.nodes = this.nodes.filter(node => node.outputs.some(name => needed.has(name)));
    this.constants = new Map([...this.constants].filter(([name]) => needed.has(name)));
  }
}

/** @param {Uint8Array} message @returns {Node} */
function readNode(message) {
  /** @type {Node} */
  const node = { op: "", domain: "", inputs: [], outputs: [], attributes: [], name: "" };
  for (const { number, bytes } of fieldsOf(message)) {
    if (number === 1) node.inputs.push(decodePiece(bytes));
    else if (number === 2) node.outputs.push(decodePiece(bytes));
    else if (number === 3) node.name = decodePiece(bytes);
    else if (number === 4) node.op = decodePiece(bytes);
    else if (number === 5) node.attributes.push(bytes);
    else if (number === 7) node.domain = decodePiece(bytes);
  }
  return node;
}

/** @param {Node} node */
function writeNode(node) {
  const writer = new Writer();
  for (const name of node.inputs) writer.bytes(1, name);
  for (const name of node.outputs) writer.bytes(2, name);
  writer.bytes(3, node.name).bytes(4, node.op);
  for (const attribute of node.attributes) writer.bytes(5, attribute);
  return writer.bytes(7, node.domain).finish();
}

/** @param {Uint8Array} message @returns {Constant} */
function readConstant(message) {
  /** @type {Constant} */
  const constant = { name: "", type: 0, dims: [], raw: new Uint8Array(), external: null, message };
  /** @type {Record<string, string>} */
  const external = {};
  for (const { number, value, bytes } of fieldsOf(message)) {
    if (number === 1) constant.dims.push(...(bytes.length ? packed(bytes) : [value]));
    else if (number === 2) constant.type = value;
    else if (number === 5) constant.raw = Uint8Array.from(bytes.length ? packed(bytes) : [value]); // small integers
    else if (number === 4) constant.raw = bytes;
    else if (number === 8) constant.name = decodePiece(bytes);
    else if (number === 9) constant.raw = bytes;
    else if (number === 13) external[textField(bytes, 1)] = textField(bytes, 2);
  }
  if (external.location) constant.external = { location: external.location, offset: Number(external.offset ?? 0) };
  return constant;
}

/** @param {Constant} constant with external data */
function writeConstant({ name, type, dims, external }) {
  const writer = new Writer();
  for (const size of dims) writer.varint(1, size);
  writer.varint(2, type).bytes(8, name);
  const entries = { location: external?.location ?? "", offset: `${external?.offset}`, length: `${4 * dims.reduce((a, b) => a * b, 1)}` };
  for (const [key, value] of Object.entries(entries)) writer.bytes(13, new Writer().bytes(1, key).bytes(2, value).finish());
  return writer.varint(14, EXTERNAL).finish();
}

/** @param {Uint8Array} message @param {number} number */
function textField(message, number) {
  for (const field of fieldsOf(message)) if (field.number === number) return decodePiece(field.bytes);
  return "";
}

/** @param {Uint8Array} bytes varints */
function packed(bytes) {
  const values = [];
  for (let at = 0, value = 0, factor = 1; at < bytes.length; at++) {
    value += (bytes[at] & 127) * factor;
    factor *= 128;
    if (bytes[at] & 128) continue;
    values.push(value);
    [value, factor] = [0, 1];
  }
  return values;
}
