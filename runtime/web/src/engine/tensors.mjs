// Build tensors, and copy rows of them.

/** @typedef {import("onnxruntime-web").Tensor} Tensor */

/** @param {typeof import("onnxruntime-web")} ort @param {number[]} values @param {number[]} shape */
export function int64(ort, values, shape) {
  return new ort.Tensor("int64", BigInt64Array.from(values, BigInt), shape);
}

/** @param {typeof import("onnxruntime-web")} ort @param {number[]} values @param {number[]} shape */
export function int32(ort, values, shape) {
  return new ort.Tensor("int32", Int32Array.from(values), shape);
}

/** Return some rows, that is, entries of the first axis. @param {typeof import("onnxruntime-web")} ort @param {Tensor} tensor @param {number[]} rows */
export function selectRows(ort, tensor, rows) {
  const data = /** @type {any} */ (tensor.data), size = data.length / tensor.dims[0];
  const selected = new data.constructor(rows.length * size);
  rows.forEach((row, index) => selected.set(data.subarray(row * size, (row + 1) * size), index * size));
  return new ort.Tensor(tensor.type, selected, [rows.length, ...tensor.dims.slice(1)]);
}

/** Whether these rows are all rows in order. @param {number[]} rows @param {number} count */
export const isIdentity = (rows, count) => rows.length === count && rows.every((row, index) => row === index);
