// Load onnxruntime-web for WebAssembly or WebGPU, and measure which of them is faster for a bundle.

import { BrowserError } from "../errors.mjs";

/** @typedef {"wasm" | "webgpu"} Device */
/** @typedef {import("./engine.mjs").Engine} Engine */

const BUILDS = {
  wasm: { module: "ort.wasm.bundle.min.mjs", binary: "ort-wasm-simd-threaded.wasm" },
  webgpu: { module: "ort.webgpu.bundle.min.mjs", binary: "ort-wasm-simd-threaded.asyncify.wasm" },
};
const MAX_THREADS = 4; // more do not pay for the small products of a step
const PROBE = { source: 16, steps: 12, rounds: 3 }; // tokens, and how often; the first round only warms up

/** @param {Device} device @param {string} libraries address of the folder with onnxruntime-web @param {number} [threads] */
export async function loadRuntime(device, libraries, threads) {
  if (typeof WebAssembly !== "object") throw new BrowserError("this browser has no WebAssembly, which translating needs");
  let ort;
  try {
    ort = await import(`${libraries}${BUILDS[device].module}`);
  } catch {
    throw new BrowserError(`onnxruntime-web for ${device} cannot be loaded from ${libraries}: make the site again`);
  }
  const possible = Math.min(MAX_THREADS, Math.ceil((navigator.hardwareConcurrency || 1) / 2));
  ort.env.wasm.numThreads = globalThis.crossOriginIsolated ? threads ?? possible : 1;
  ort.env.wasm.wasmPaths = { wasm: `${libraries}${BUILDS[device].binary}` };
  return ort;
}

/** Return whether the browser has a GPU; a software renderer is none. */
export async function hasGpu() {
  const gpu = /** @type {any} */ (navigator).gpu, adapter = await gpu?.requestAdapter();
  return !!adapter && !adapter.info?.isFallbackAdapter;
}

/** Return whether an engine chooses the tokens that another one chooses, in less time. @param {Engine} engine @param {Engine} other @param {number} start */
export async function isFaster(engine, other, start) {
  const mine = await probe(engine, start), theirs = await probe(other, start);
  return mine.milliseconds < theirs.milliseconds && mine.tokens.every((token, index) => token === theirs.tokens[index]);
}

/** Decode a few greedy steps for source tokens from the whole vocabulary. @param {Engine} engine @param {number} start */
async function probe(engine, start) {
  const source = Array.from({ length: PROBE.source }, (_, index) => Math.floor((index * engine.sizes.vocabulary) / PROBE.source));
  let tokens = /** @type {number[]} */ ([]), milliseconds = Infinity;
  for (let round = 0; round < PROBE.rounds; round++) {
    const began = performance.now(), state = await engine.start([source]);
    tokens = [start];
    while (tokens.length <= PROBE.steps) {
      const logits = (await state.step([[tokens.slice(-1)]], [[0]])).row(0);
      tokens.push(logits.reduce((best, logit, token) => (logit > logits[best] ? token : best), 0));
    }
    state.release();
    if (round) milliseconds = Math.min(milliseconds, performance.now() - began);
  }
  return { tokens, milliseconds };
}
