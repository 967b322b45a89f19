// Decode with a KV cache that every call returns longer; the graph selects its rows. Also for recurrent decoders.

import { BundleError } from "../errors.mjs";
import { computing } from "./engine.mjs";
import { free, int64, selectRows } from "./tensors.mjs";

/** @typedef {import("./engine.mjs").Engine} Engine */
/** @typedef {import("./engine.mjs").Tensors} Tensors */
/** @typedef {{ mask: Uint8Array, length: number, cross: Tensors }} Encoded */

export class AppendCacheState {
  /** @param {Engine} engine @param {Encoded} encoded */
  constructor(engine, { mask, length, cross }) {
    this.ort = engine.ort;
    /** @type {import("./engine.mjs").Session} */
    this.decoder = engine.decoder;
    this.sentences = mask.length / length;
    this.rowsPerSentence = 1;
    /** @type {Tensors} */
    this.source = { source_mask: new this.ort.Tensor("bool", mask, [this.sentences, length]), ...cross };
    this.past = this.#emptyPast();
  }

  /** @param {number[][][]} tokens (B, K, T) @param {number[][]} rows (B, K) */
  async step(tokens, rows) {
    const kept = rows.map(of => Math.floor(of[0] / this.rowsPerSentence));
    if (kept.length < this.sentences)
      for (const [name, tensor] of Object.entries(this.source)) this.source[name] = await selectRows(this.ort, tensor, kept);
    [this.sentences, this.rowsPerSentence] = [rows.length, rows[0].length];
    const shape = [this.sentences, this.rowsPerSentence];
    const output = await computing(() => this.decoder.run({
      target: int64(this.ort, tokens.flat(2), [...shape, tokens[0][0].length]), rows: int64(this.ort, rows.flat(), shape),
      ...this.source, ...this.past,
    }));
    free(Object.values(this.past));
    for (const name of Object.keys(this.past)) this.past[name] = output[name.replace("past", "present")];
    const logits = /** @type {Float32Array} */ (output.logits.data), size = output.logits.dims[2];
    return { row: (/** @type {number} */ row) => logits.subarray(row * size, (row + 1) * size), logTotal: () => undefined };
  }

  release() {
    free(Object.values({ ...this.source, ...this.past }));
  }

  /** Return the cache before the first token: the graph says what it looks like. @returns {Tensors} */
  #emptyPast() {
    /** @type {Record<string, number>} */
    const sizes = { past_rows: this.sentences, past_length: 0 };
    const inputs = this.decoder.inputMetadata.filter(input => input.name.startsWith("past"));
    return Object.fromEntries(inputs.map(input => {
      if (!input.isTensor || (input.type !== "float32" && input.type !== "int64"))
        throw new BundleError(`the decoder's input ${input.name} has a type that this page does not support`);
      const shape = input.shape.map(axis => (typeof axis === "number" ? axis : sizes[axis]));
      const count = shape.reduce((product, axis) => product * axis, 1);
      const data = input.type === "int64" ? new BigInt64Array(count) : new Float32Array(count);
      return [input.name, new this.ort.Tensor(input.type, /** @type {any} */ (data), shape)];
    }));
  }
}
