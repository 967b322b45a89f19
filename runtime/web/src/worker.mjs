// The worker in which a bundle is loaded and run; client.mjs talks to it.

import { fetchFrom, readBundle } from "./bundle/bundle.mjs";
import { hasGpu, isFaster, loadRuntime } from "./engine/devices.mjs";
import { Engine } from "./engine/engine.mjs";
import { Seq2EdgeError, asMemoryError } from "./errors.mjs";
import { BundleTranslator } from "./translator.mjs";

/** @typedef {import("./options.mjs").Options} Options */
/** @typedef {import("./engine/devices.mjs").Device} Device */
/** @typedef {{ url: string, libraries: string, threads?: number, sha256?: string, device: Device | "auto" }} LoadOptions */
/** @typedef {{ id: number, call: "load" | "translate" | "stream" | "stop", args: any[] }} Request */

/** @type {BundleTranslator | undefined} */
let translator;
/** @type {Set<number>} streams that nobody reads any more */
const stopped = new Set();

const calls = {
  async load(/** @type {number} */ id, /** @type {LoadOptions} */ options) {
    const { url, libraries, threads, sha256 } = options, device = options.device === "auto" ? "wasm" : options.device;
    const onProgress = (/** @type {number} */ loaded, /** @type {number} */ total) => postMessage({ id, progress: { loaded, total } });
    const [ort, bundle] = await Promise.all([loadRuntime(device, libraries, threads), readBundle(fetchFrom(url), { sha256, onProgress })]);
    const first = await Engine.load(ort, bundle, device);
    const engine = options.device === "auto" ? await fasterEngine(first, bundle, options) : first;
    translator = await BundleTranslator.open(bundle, engine, () => import(`${libraries}tokenizers.min.mjs`));
    return { manifest: bundle.manifest, device: engine.device, threads: engine.ort.env.wasm.numThreads };
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
};

globalThis.onmessage = async (/** @type {MessageEvent<Request>} */ { data: { id, call, args } }) => {
  try {
    const run = /** @type {(id: number, ...args: any[]) => any} */ (calls[call]);
    postMessage({ id, value: await run(id, ...args) });
  } catch (thrown) {
    const error = asMemoryError(thrown) ?? thrown, known = error instanceof Seq2EdgeError;
    const text = error instanceof Error ? error.message : `${error}`;
    postMessage({ id, error: { name: known ? error.name : "Seq2EdgeError", message: known ? text : `an unexpected error: ${text}` } });
  }
};

function loaded() {
  if (!translator) throw new Seq2EdgeError("no bundle is loaded");
  return translator;
}

/**
 * Return the engine on a GPU if there is one and it is faster than this one, else this one.
 * @param {Engine} engine @param {import("./bundle/bundle.mjs").Bundle} bundle @param {LoadOptions} options
 */
async function fasterEngine(engine, bundle, { libraries, threads }) {
  if (!(await hasGpu())) return engine;
  try {
    const onGpu = await Engine.load(await loadRuntime("webgpu", libraries, threads), bundle, "webgpu");
    const isChosen = await isFaster(onGpu, engine, bundle.manifest.generation.decoder_start_token_id);
    await (isChosen ? engine : onGpu).release();
    return isChosen ? onGpu : engine;
  } catch {
    return engine; // a GPU that lacks memory or an operation
  }
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
