// Decode with a KV cache that has spare capacity, into which onnxruntime writes the new tokens; see docs/bundle.md.

import { computing } from "./engine.mjs";
import { free, int32, int64, isIdentity, selectRows, take } from "./tensors.mjs";

/** @typedef {import("./engine.mjs").Engine} Engine */
/** @typedef {import("./engine.mjs").Tensors} Tensors */

const CAPACITY = 32; // tokens of a new cache; a full one is doubled
const LOWEST = -3.4028234663852886e38; // of float32

export class InplaceCacheState {
  /** @param {Engine} engine @param {import("./kv_append.mjs").Encoded} encoded */
  constructor(engine, { mask, length, cross }) {
    this.ort = engine.ort;
    /** @type {import("./engine.mjs").Session} */
    this.decoder = engine.decoder;
    this.sourceLength = length;
    this.mask = mask;
    this.cross = cross;
    this.sentences = mask.length / length;
    this.rowsPerSentence = 1;
    this.length = 0; // tokens in the cache
    this.capacity = CAPACITY;
    const [, heads, , width] = Object.values(cross)[0].dims;
    this.pastNames = engine.decoder.inputNames.filter(name => name.startsWith("past"));
    const shape = [this.sentences, heads, CAPACITY, width], size = shape.reduce((product, axis) => product * axis, 1);
    /** @type {Tensors} */
    this.past = Object.fromEntries(this.pastNames.map(name => [name, new this.ort.Tensor("float32", new Float32Array(size), shape)]));
  }

  /** @param {number[][][]} tokens (B, K, T) @param {number[][]} rows (B, K) */
  async step(tokens, rows) {
    const { ort } = this, count = tokens[0][0].length;
    await this.#select(rows, count);
    const all = rows.flat().map((_, row) => row), total = this.length + count, queries = this.rowsPerSentence * count;
    const output = await computing(() => this.decoder.run({
      target: int64(ort, tokens.flat(2), [this.sentences, this.rowsPerSentence, count]),
      positions: int64(ort, Array.from({ length: count }, (_, index) => this.length + index), [count]),
      last: int32(ort, all.map(() => total - 1), [all.length]),
      total: int32(ort, [total], [1]),
      wanted: int64(ort, all, [all.length]),
      source_bias: this.#bias(queries),
      ...this.cross, ...this.past,
    }));
    free(Object.values(this.past));
    for (const name of this.pastNames) this.past[name] = output[name.replace("past", "present")];
    this.length = total;
    const logits = /** @type {Float32Array} */ (output.logits.data), size = output.logits.dims[1];
    const logTotals = /** @type {Float32Array | undefined} */ (output.log_totals?.data);
    return {
      row: (/** @type {number} */ row) => logits.subarray(row * size, (row + 1) * size),
      logTotal: (/** @type {number} */ row) => logTotals?.[row],
    };
  }

  release() {
    free(Object.values({ ...this.cross, ...this.past }));
  }

  /** Keep the rows that go on, in their new order, with room for so many more tokens. @param {number[][]} rows @param {number} count */
  async #select(rows, count) {
    const kept = rows.map(of => Math.floor(of[0] / this.rowsPerSentence)), flat = rows.flat();
    const rowsBefore = this.sentences * this.rowsPerSentence;
    if (kept.length < this.sentences) {
      for (const [name, tensor] of Object.entries(this.cross)) this.cross[name] = await selectRows(this.ort, tensor, kept);
      this.mask = Uint8Array.from(kept.flatMap(row => [...this.mask.subarray(row * this.sourceLength, (row + 1) * this.sourceLength)]));
    }
    [this.sentences, this.rowsPerSentence] = [rows.length, rows[0].length];
    const isFull = this.length + count > this.capacity;
    if (!isFull && isIdentity(flat, rowsBefore)) return;
    if (isFull) this.capacity = Math.max(2 * this.capacity, this.length + count);
    for (const name of this.pastNames) this.past[name] = await this.#copy(this.past[name], flat);
  }

  /** Copy the tokens of some rows of the cache into one of the present capacity. @param {import("./engine.mjs").Tensor} past @param {number[]} rows */
  async #copy(past, rows) {
    const [, heads, capacity, width] = past.dims, used = this.length * width;
    const from = /** @type {Float32Array} */ (await take(past)), to = new Float32Array(rows.length * heads * this.capacity * width);
    rows.forEach((row, index) => {
      for (let head = 0; head < heads; head++) {
        const start = (row * heads + head) * capacity * width;
        to.set(from.subarray(start, start + used), (index * heads + head) * this.capacity * width);
      }
    });
    return new this.ort.Tensor("float32", to, [rows.length, heads, this.capacity, width]);
  }

  /** Return what cross-attention adds to its scores so that no query sees padding. @param {number} queries */
  #bias(queries) {
    const bias = new Float32Array(this.sentences * queries * this.sourceLength);
    for (let row = 0; row < this.sentences; row++)
      for (let query = 0; query < queries; query++)
        for (let at = 0; at < this.sourceLength; at++)
          if (!this.mask[row * this.sourceLength + at]) bias[(row * queries + query) * this.sourceLength + at] = LOWEST;
    return new this.ort.Tensor("float32", bias, [this.sentences, 1, queries, this.sourceLength]);
  }
}
