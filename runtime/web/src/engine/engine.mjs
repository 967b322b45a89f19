// The encoder and decoder sessions of a bundle; starts a decoder state for each batch.

import { DECODER, ENCODER, WEIGHTS } from "../bundle/manifest.mjs";
import { BundleError, asMemoryError } from "../errors.mjs";
import { AppendCacheState } from "./kv_append.mjs";
import { InplaceCacheState } from "./kv_inplace.mjs";
import { OnnxGraph } from "./onnx_graph.mjs";
import { int64 } from "./tensors.mjs";
import { WIDENED, widen } from "./widen.mjs";

/** @typedef {typeof import("onnxruntime-web")} Ort */
/** @typedef {import("onnxruntime-web").InferenceSession} Session */
/** @typedef {import("onnxruntime-web").Tensor} Tensor */
/** @typedef {Record<string, Tensor>} Tensors */
/** @typedef {{ row: (row: number) => Float32Array, logTotal: (row: number) => number | undefined }} StepOutput */
/**
 * @typedef {object} DecoderState the KV cache of a batch, and the decoder that extends it by one call
 * @property {(tokens: number[][][], rows: number[][]) => Promise<StepOutput>} step append `tokens` (B, K, T) to the rows
 *   (B, K) of the previous call, counted through the whole batch, and return the logits of the next position; sentences
 *   whose rows are left out are dropped
 * @property {() => void} release free the memory of a GPU
 */

const BLOCK = 4; // sources are padded to a multiple of it, as in Python, so that sums are added in the same order
const ROWS_PER_BATCH = 64, LOGITS_PER_BATCH = 2 ** 20;

export class Engine {
  /**
   * @param {Ort} ort @param {Session} encoder @param {Session} decoder
   * @param {{ pad: number, maxPositions: number, vocabulary: number }} sizes @param {import("./devices.mjs").Device} device
   */
  constructor(ort, encoder, decoder, sizes, device) {
    this.ort = ort;
    this.device = device;
    this.encoder = encoder;
    this.decoder = decoder;
    this.sizes = sizes;
    this.inplace = decoder.inputNames.includes("last");
  }

  /**
   * Open the graphs of a bundle; weights in 8 bits are widened to float32, which wasm computes faster.
   * @param {Ort} ort @param {import("../bundle/bundle.mjs").Bundle} bundle
   * @param {import("./devices.mjs").Device} [device]
   */
  static async load(ort, { manifest, files }, device = "wasm") {
    if (manifest.precision === "fp16-compute")
      throw new BundleError("the bundle computes in float16, which this page does not support: export another precision");
    let graphs = [ENCODER, DECODER].map(name => /** @type {Uint8Array} */ (files.get(name)));
    const externalData = [{ path: WEIGHTS, data: /** @type {Uint8Array} */ (files.get(WEIGHTS)) }];
    if (manifest.quantization) {
      const widened = widen(graphs, externalData[0].data);
      graphs = widened.graphs;
      externalData.push({ path: WIDENED, data: widened.weights });
    }
    const options = { executionProviders: [device], externalData, logSeverityLevel: /** @type {const} */ (3), enableMemPattern: false };
    const open = (/** @type {Uint8Array} */ graph) => computing(() => ort.InferenceSession.create(
      graph, { ...options, preferredOutputLocation: device === "webgpu" ? locations(graph) : "cpu" }));
    const encoder = await open(graphs[0]), decoder = await open(graphs[1]);
    const sizes = { pad: manifest.tokens.pad, maxPositions: manifest.max_positions, vocabulary: manifest.architecture?.target_vocabulary ?? 0 };
    return new Engine(ort, encoder, decoder, sizes, device);
  }

  /** The number of rows that are decoded fastest in one batch, as in Python. */
  get mostRows() {
    return Math.max(ROWS_PER_BATCH, Math.floor(LOGITS_PER_BATCH / Math.max(1, this.sizes.vocabulary)));
  }

  /** Encode sentences and return the decoder state to search with. @param {number[][]} sources @returns {Promise<DecoderState>} */
  async start(sources) {
    const longest = Math.max(...sources.map(source => source.length));
    const length = Math.max(longest, Math.min(Math.ceil(longest / BLOCK) * BLOCK, this.sizes.maxPositions));
    const ids = sources.flatMap(source => [...source, ...Array(length - source.length).fill(this.sizes.pad)]);
    const mask = Uint8Array.from(sources.flatMap(source => Array.from({ length }, (_, at) => Number(at < source.length))));
    const shape = [sources.length, length];
    const cross = await computing(() => this.encoder.run(
      { source: int64(this.ort, ids, shape), source_mask: new this.ort.Tensor("bool", mask, shape) }));
    const encoded = { mask, length, cross: /** @type {Tensors} */ (cross) };
    return this.inplace ? new InplaceCacheState(this, encoded) : new AppendCacheState(this, encoded);
  }

  async release() {
    await this.encoder.release();
    await this.decoder.release();
  }
}

/** Let all outputs stay on the GPU, except the logits. @param {Uint8Array} graph */
function locations(graph) {
  /** @param {string} name @returns {"cpu" | "gpu-buffer"} */
  const locationOf = name => (name.startsWith("log") ? "cpu" : "gpu-buffer");
  return Object.fromEntries(new OnnxGraph(graph).outputs.map(name => [name, locationOf(name)]));
}

/** Run onnxruntime, and say in one sentence what went wrong. @template T @param {() => Promise<T>} run */
export async function computing(run) {
  try {
    return await run();
  } catch (error) {
    const text = error instanceof Error ? error.message : `${error}`;
    throw asMemoryError(error) ?? new BundleError(`onnxruntime cannot run this bundle (${text.split("\n")[0]})`);
  }
}
