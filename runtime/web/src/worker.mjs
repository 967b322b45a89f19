// The worker in which a bundle is loaded and run; client.mjs talks to it.

import { fetchFrom } from "./bundle/bundle.mjs";
import { BrowserError, Seq2EdgeError } from "./errors.mjs";
import { BundleTranslator } from "./translator.mjs";

/** @typedef {import("./options.mjs").Options} Options */
/** @typedef {{ url: string, libraries: string, threads?: number, sha256?: string }} LoadOptions */
/** @typedef {{ id: number, call: "load" | "translate" | "stream" | "stop" | "release", args: any[] }} Request */

const MAX_THREADS = 4; // more do not pay for the small products of a step

/** @type {BundleTranslator | undefined} */
let translator;
/** @type {Set<number>} streams that nobody reads any more */
const stopped = new Set();

const calls = {
  async load(/** @type {number} */ id, /** @type {LoadOptions} */ { url, libraries, threads, sha256 }) {
    const ort = await loadRuntime(libraries, threads);
    await translator?.release();
    translator = await BundleTranslator.load(fetchFrom(url), {
      ort, sha256, tokenizers: () => import(`${libraries}tokenizers.min.mjs`),
      onProgress: (loaded, total) => postMessage({ id, progress: { loaded, total } }),
    });
    return { manifest: translator.manifest, threads: ort.env.wasm.numThreads };
  },

  translate(/** @type {number} */ id, /** @type {string[]} */ texts, /** @type {Options} */ options) {
    return loaded().translate(texts, options);
  },

  async stream(/** @type {number} */ id, /** @type {string} */ text, /** @type {Options} */ options) {
    const stream = loaded().stream(text, options);
    let step = await stream.next();
    for (; !step.done && !stopped.has(id); step = await stream.next()) {
      postMessage({ id, piece: step.value });
      await nextTask(); // lets a message that stops the stream arrive
    }
    return stopped.delete(id) ? null : step.value;
  },

  stop(/** @type {number} */ _, /** @type {number} */ stream) {
    stopped.add(stream);
  },

  async release() {
    await translator?.release();
    translator = undefined;
  },
};

globalThis.onmessage = async (/** @type {MessageEvent<Request>} */ { data: { id, call, args } }) => {
  try {
    const run = /** @type {(id: number, ...args: any[]) => any} */ (calls[call]);
    postMessage({ id, value: await run(id, ...args) });
  } catch (error) {
    const known = error instanceof Seq2EdgeError;
    const text = error instanceof Error ? error.message : `${error}`;
    postMessage({ id, error: { name: known ? error.name : "Seq2EdgeError", message: known ? text : `an unexpected error: ${text}` } });
  }
};

function loaded() {
  if (!translator) throw new Seq2EdgeError("no bundle is loaded");
  return translator;
}

/** @param {string} libraries address of the folder with onnxruntime-web @param {number} [threads] */
async function loadRuntime(libraries, threads) {
  if (typeof WebAssembly !== "object") throw new BrowserError("this browser has no WebAssembly, which translating needs");
  let ort;
  try {
    ort = await import(`${libraries}ort.wasm.bundle.min.mjs`);
  } catch {
    throw new BrowserError(`onnxruntime-web cannot be loaded from ${libraries}: make the site again`);
  }
  const possible = Math.min(MAX_THREADS, Math.ceil((navigator.hardwareConcurrency || 1) / 2));
  ort.env.wasm.numThreads = globalThis.crossOriginIsolated ? threads ?? possible : 1;
  ort.env.wasm.wasmPaths = { wasm: `${libraries}ort-wasm-simd-threaded.wasm` };
  return ort;
}

function nextTask() {
  return new Promise(resolve => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve(undefined);
    };
    port2.postMessage(0);
  });
}
