// The Translator of a page: loads a bundle in a worker, so that the page stays responsive.

import { BrowserError, BundleError, DataError, Seq2EdgeError, UsageError } from "./errors.mjs";

/** @typedef {import("./bundle/manifest.mjs").Manifest} Manifest */
/** @typedef {import("./options.mjs").Options} Options */
/** @typedef {import("./translator.mjs").Translation} Translation */
/**
 * @typedef {object} LoadOptions
 * @property {string | URL} [libraries] folder with onnxruntime-web; by default `../libraries/` next to this module's folder
 * @property {"wasm" | "webgpu" | "auto"} [device] auto: WebGPU if it is measured to be faster, else WebAssembly, the default
 * @property {number} [threads] where the page is cross-origin isolated; by default half of the cores, at most 4
 * @property {string} [sha256] of the bundle's manifest, if the page knows it
 * @property {(loaded: number, total: number) => void} [onProgress] bytes
 */
/** @typedef {{ resolve: (value: any) => void, reject: (error: Error) => void, onMessage?: (data: any) => void }} Pending */

/** @type {Record<string, new (message: string) => Error>} */
const ERRORS = { BrowserError, BundleError, DataError, Seq2EdgeError, UsageError };

export class Translator {
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  #lastId = 0;
  #worker;
  /** @type {Manifest} */
  // @ts-ignore: set by load, which is the only way to make one
  manifest;
  /** @type {"wasm" | "webgpu"} */
  device = "wasm";
  threads = 1;

  /** @param {Worker} worker */
  constructor(worker) {
    this.#worker = worker;
    worker.onmessage = ({ data }) => this.#receive(data);
    worker.onerror = event => this.#fail(new BrowserError(`the worker cannot run: ${event.message || "its script did not load"}`));
  }

  /**
   * Load the bundle at an address; files are checked, and kept for the next visit.
   * @param {string | URL} url @param {LoadOptions} [options]
   */
  static async load(url, { libraries = new URL("../libraries/", import.meta.url), device = "wasm", threads, sha256, onProgress } = {}) {
    const translator = new Translator(new Worker(new URL("./worker.mjs", import.meta.url), { type: "module" }));
    const address = { url: new URL(url, location.href).href, libraries: new URL(libraries, location.href).href };
    try {
      const loaded = await translator.#call("load", [{ ...address, device, threads, sha256 }],
        ({ progress }) => progress && onProgress?.(progress.loaded, progress.total)).promise;
      Object.assign(translator, loaded); // manifest, device and threads
      return translator;
    } catch (error) {
      translator.close(); // nothing half-done
      throw error;
    }
  }

  /**
   * Translate a text, or several at once.
   * @template {string | string[]} T @param {T} texts @param {Options} [options]
   * @returns {Promise<T extends string ? Translation : Translation[]>}
   */
  async translate(texts, options = {}) {
    const found = await this.#call("translate", [[texts].flat(), options]).promise;
    return typeof texts === "string" ? found[0] : found;
  }

  /**
   * Translate one text; yield pieces of the translation as soon as they cannot change, and return the translation.
   * @param {string} text @param {Options} [options]
   * @returns {AsyncGenerator<string, Translation>}
   */
  async *stream(text, options = {}) {
    /** @type {string[]} */
    const pieces = [];
    let wake = () => {}, isDone = false;
    const { id, promise } = this.#call("stream", [text, options], ({ piece }) => {
      pieces.push(piece);
      wake();
    });
    promise.catch(() => {}).finally(() => {
      isDone = true;
      wake();
    });
    try {
      while (!isDone || pieces.length) {
        if (pieces.length) yield /** @type {string} */ (pieces.shift());
        else await new Promise(resolve => { wake = () => resolve(undefined); });
      }
      return await promise;
    } finally {
      if (!isDone) this.#call("stop", [id]).promise.catch(() => {});
    }
  }

  /** End the worker and free its memory. */
  close() {
    this.#worker.terminate();
    this.#fail(new UsageError("the translator was closed"));
  }

  /** @param {string} call @param {any[]} args @param {(data: any) => void} [onMessage] */
  #call(call, args, onMessage) {
    const id = ++this.#lastId;
    const promise = new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject, onMessage }));
    this.#worker.postMessage({ id, call, args });
    return { id, promise };
  }

  /** @param {any} data */
  #receive(data) {
    const pending = this.#pending.get(data.id);
    if (!pending) return;
    if (!("value" in data) && !data.error) return pending.onMessage?.(data);
    this.#pending.delete(data.id);
    if (data.error) pending.reject(new (ERRORS[data.error.name] ?? Seq2EdgeError)(data.error.message));
    else pending.resolve(data.value);
  }

  /** @param {Error} error */
  #fail(error) {
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
  }
}
