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
export async function selectRows(ort, tensor, rows) {
  const data = /** @type {any} */ (await take(tensor)), size = data.length / tensor.dims[0];
  const selected = new data.constructor(rows.length * size);
  rows.forEach((row, index) => selected.set(data.subarray(row * size, (row + 1) * size), index * size));
  return new ort.Tensor(tensor.type, selected, [rows.length, ...tensor.dims.slice(1)]);
}

/** Return the values of a tensor that is not used any more; one on a GPU is copied and freed. @param {Tensor} tensor */
export async function take(tensor) {
  const data = await tensor.getData();
  free([tensor]);
  return data;
}

/** Free the memory that tensors have on a GPU. @param {Tensor[]} tensors */
export function free(tensors) {
  for (const tensor of tensors) if (tensor.location === "gpu-buffer") tensor.dispose();
}

/** Whether these rows are all rows in order. @param {number[]} rows @param {number} count */
export const isIdentity = (rows, count) => rows.length === count && rows.every((row, index) => row === index);
