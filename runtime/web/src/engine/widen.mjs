// Widen a bundle in int8 to float32 when it is loaded: a quarter of the download, and the speed of float32 in wasm.
//
// A product of 8-bit integers (docs/quantization.md) becomes a plain product with the same weights, which are integer
// times scale and exact in float32. Activations are not rounded, so the results are those of float32 arithmetic.

import { DataError } from "../errors.mjs";
import { BFLOAT16, FLOAT, INT8, OnnxGraph } from "./onnx_graph.mjs";

/** @typedef {import("./onnx_graph.mjs").Node} Node */
/** @typedef {import("./onnx_graph.mjs").Constant} Constant */

export const WIDENED = "widened.bin";
const ALIGNMENT = 64; // bytes

/**
 * Return the graphs with float32 products, and the file of their weights.
 * @param {Uint8Array[]} graphs @param {Uint8Array} weights
 */
export function widen(graphs, weights) {
  const table = new WidenedWeights(weights);
  const widened = graphs.map(graph => new GraphWidener(new OnnxGraph(graph), table).widen());
  return { graphs: widened, weights: table.toBytes() };
}

/** The weights in float32, each once for all graphs. */
class WidenedWeights {
  /** @type {Map<string, { offset: number, data: Float32Array }>} by their place in the file */
  #tensors = new Map();
  #size = 0;

  /** @param {Uint8Array} weights */
  constructor(weights) {
    this.weights = weights;
  }

  /** Return where a constant's integers times the scales of its channels are. @param {Constant} constant @param {Float32Array} scales @param {boolean} rowsAreChannels */
  add(constant, scales, rowsAreChannels) {
    const key = `${constant.external?.offset} ${rowsAreChannels}`, known = this.#tensors.get(key);
    if (known) return known.offset;
    const [rows, columns] = constant.dims, offset = this.#size;
    const integers = new Int8Array(this.bytesOf(constant, rows * columns).slice().buffer), data = new Float32Array(rows * columns);
    for (let row = 0, at = 0; row < rows; row++)
      for (let column = 0; column < columns; column++, at++) data[at] = integers[at] * scales[rowsAreChannels ? row : column];
    this.#tensors.set(key, { offset, data });
    this.#size = Math.ceil((offset + data.byteLength) / ALIGNMENT) * ALIGNMENT;
    return offset;
  }

  /** @param {Constant} constant @param {number} size */
  bytesOf(constant, size) {
    if (!constant.external) return constant.raw;
    return this.weights.subarray(constant.external.offset, constant.external.offset + size);
  }

  toBytes() {
    const whole = new Uint8Array(this.#size);
    for (const { offset, data } of this.#tensors.values()) whole.set(new Uint8Array(data.buffer), offset);
    return whole;
  }
}

/** Replaces the integer products and lookups of one graph. */
class GraphWidener {
  /** @param {OnnxGraph} graph @param {WidenedWeights} weights */
  constructor(graph, weights) {
    this.graph = graph;
    this.weights = weights;
    this.producers = new Map(graph.nodes.flatMap(node => node.outputs.map(name => [name, node])));
  }

  widen() {
    this.graph.nodes = this.graph.nodes.flatMap(node => this.#replacement(node));
    this.graph.removeUnused();
    return this.graph.toBytes();
  }

  /** @param {Node} node @returns {Node[]} */
  #replacement(node) {
    if (node.op === "MatMulIntegerToFloat") {
      const [integers, matrix, , scale, zero, , bias = ""] = node.inputs;
      return this.#product(integers, matrix, scale, zero, bias, node.outputs[0]);
    }
    if (node.op === "Mul" && this.#producer(node.inputs[0])?.op === "DequantizeLinear") return this.#lookup(node);
    const scaled = node.op === "Mul" ? this.#portableProduct(node) : null;
    return scaled ?? [node];
  }

  /** Replace  Mul(Mul(Cast(MatMulInteger(integers, matrix, zero)), largest), scale). @param {Node} node @returns {Node[] | null} */
  #portableProduct(node) {
    const inner = this.#producer(node.inputs[0]), cast = inner?.op === "Mul" ? this.#producer(inner.inputs[0]) : undefined;
    const product = cast?.op === "Cast" ? this.#producer(cast.inputs[0]) : undefined;
    if (product?.op !== "MatMulInteger") return null;
    const [integers, matrix, zero] = product.inputs;
    return this.#product(integers, matrix, node.inputs[1], zero, "", node.outputs[0]);
  }

  /** @param {string} integers @param {string} matrix @param {string} scale @param {string} zero @param {string} bias @param {string} output @returns {Node[]} */
  #product(integers, matrix, scale, zero, bias, output) {
    const isUnsigned = this.#constant(zero).raw[0] === 0, steps = isUnsigned ? 255 : 127;
    const quantize = this.#producer(integers), division = quantize && this.#producer(quantize.inputs[0]);
    if (quantize?.op !== "QuantizeLinear") throw new DataError("the graph has an integer product of an unknown form");
    let left = division?.op === "Div" ? division.inputs[0] : quantize.inputs[0]; // rows with a scale of their own
    const transpose = this.#producer(matrix);
    this.#widenConstant(transpose ? transpose.inputs[0] : matrix, scale, steps, !!transpose);
    /** @type {Node[]} */
    const nodes = [];
    if (isUnsigned) { // rounding to bytes without a sign had replaced it
      nodes.push(nodeOf("Relu", [left], `${output}.left`));
      left = `${output}.left`;
    }
    nodes.push(nodeOf("MatMul", [left, matrix], bias ? `${output}.product` : output));
    if (bias) nodes.push(nodeOf("Add", [`${output}.product`, bias], output));
    return nodes;
  }

  /** Replace  Mul(DequantizeLinear(Gather(table, ids), steps), Gather(scales, ids)). @param {Node} node @returns {Node[]} */
  #lookup(node) {
    const dequantize = this.#producer(node.inputs[0]), gather = dequantize && this.#producer(dequantize.inputs[0]);
    const scales = this.#producer(node.inputs[1]);
    if (!dequantize || gather?.op !== "Gather" || scales?.op !== "Gather") return [node];
    const [steps] = this.#floats(this.#constant(dequantize.inputs[1]));
    this.#widenConstant(gather.inputs[0], scales.inputs[0], steps, true);
    return [nodeOf("Gather", gather.inputs, node.outputs[0])];
  }

  /** Replace a constant by its widened form under the same name. @param {string} name @param {string} scale @param {number} steps @param {boolean} rowsAreChannels */
  #widenConstant(name, scale, steps, rowsAreChannels) {
    const constant = this.#constant(name);
    if (constant.type !== INT8) return; // it was widened for another reader
    const scales = this.#floats(this.#constant(this.#origin(scale)));
    const offset = this.weights.add(constant, scales.map(value => value * steps), rowsAreChannels);
    this.graph.constants.set(name, {
      ...constant, type: FLOAT, raw: new Uint8Array(), external: { location: WIDENED, offset }, message: null,
    });
  }

  /** Return the constant that scales come from: they are cast, and those of the logits also prepared for few rows. */
  #origin(/** @type {string} */ scale) {
    for (let node = this.#producer(scale); node; node = this.#producer(scale)) scale = node.inputs[0];
    return scale;
  }

  /** @param {Constant} constant */
  #floats(constant) {
    const count = constant.dims.reduce((product, size) => product * size, 1);
    const bytes = this.weights.bytesOf(constant, count * (constant.type === BFLOAT16 ? 2 : 4)).slice().buffer;
    if (constant.type !== BFLOAT16) return new Float32Array(bytes);
    return new Float32Array(Uint32Array.from(new Uint16Array(bytes), bits => bits << 16).buffer);
  }

  /** @param {string} name */
  #producer(name) {
    return this.producers.get(name);
  }

  /** @param {string} name @returns {Constant} */
  #constant(name) {
    const constant = this.graph.constants.get(name);
    if (!constant) throw new DataError(`the graph has no constant ${name}`);
    return constant;
  }
}

/** @param {string} op @param {string[]} inputs @param {string} output @returns {Node} */
function nodeOf(op, inputs, output) {
  return { op, domain: "", inputs, outputs: [output], attributes: [], name: output };
}
