// Fetch the files of a bundle, check their sha256, and keep them for the next visit.

import { BrowserError, BundleError } from "../errors.mjs";
import { MANIFEST, readManifest, usedFiles } from "./manifest.mjs";

/** @typedef {import("./manifest.mjs").Manifest} Manifest */
/** @typedef {{ manifest: Manifest, files: Map<string, Uint8Array> }} Bundle */
/** @typedef {(name: string, expected?: { sha256: string, size: number }) => Promise<Uint8Array>} ReadFile */

const CACHE = "seq2edge-bundles";

/**
 * Read a bundle, checking every file against the manifest, and the manifest against `sha256` if it is given.
 * @param {ReadFile} read
 * @param {{ sha256?: string, onProgress?: (loaded: number, total: number) => void }} [options]
 * @returns {Promise<Bundle>}
 */
export async function readBundle(read, { sha256, onProgress } = {}) {
  const raw = await read(MANIFEST);
  if (sha256) await checkHash(MANIFEST, raw, sha256);
  const manifest = readManifest(raw), names = usedFiles(manifest);
  const total = names.reduce((sum, name) => sum + manifest.files[name].size, 0);
  let loaded = 0;
  onProgress?.(0, total);
  const files = await Promise.all(names.map(async name => {
    const entry = manifest.files[name], content = await read(name, entry);
    if (content.length !== entry.size)
      throw new BundleError(`${name} has ${content.length} bytes instead of ${entry.size}: copy the bundle again`);
    await checkHash(name, content, entry.sha256);
    loaded += entry.size;
    onProgress?.(loaded, total);
    return /** @type {[string, Uint8Array]} */ ([name, content]);
  }));
  return { manifest, files: new Map(files) };
}

/**
 * Return a function that reads files below an address. Checked files are kept in the browser's cache, by their sha256;
 * the manifest is fetched each time, and the kept one is used where the network is off.
 * @param {string | URL} address
 * @returns {ReadFile}
 */
export function fetchFrom(address) {
  const base = new URL(`${address}`.replace(/\/*$/u, "/"), globalThis.location?.href);
  return async (name, expected) => {
    const url = new URL(encodeURIComponent(name), base), cache = await openCache();
    const key = new Request(`${url}${expected ? `?sha256=${expected.sha256}` : ""}`);
    const kept = await cache?.match(key);
    if (kept && expected) return new Uint8Array(await kept.arrayBuffer());
    const content = await fetchFile(url, kept);
    if (cache && (!expected || (await hashOf(content)) === expected.sha256)) await keep(cache, key, content);
    return content;
  };
}

/** @param {URL} url @param {Response | undefined} kept */
async function fetchFile(url, kept) {
  let response;
  try {
    response = await fetch(url, { cache: "no-cache" });
  } catch {
    if (kept) return new Uint8Array(await kept.arrayBuffer());
    throw new BundleError(`${url} cannot be loaded: the network is off and this browser has not kept it`);
  }
  if (!response.ok) throw new BundleError(`${url} cannot be loaded: the server answered ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/** Keep a file for the next visit, instead of what it was before; a browser without room for it only downloads it again. */
async function keep(/** @type {Cache} */ cache, /** @type {Request} */ key, /** @type {Uint8Array} */ content) {
  try {
    await cache.delete(key, { ignoreSearch: true });
    await cache.put(key, new Response(new Blob([/** @type {BlobPart} */ (content)])));
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}

async function openCache() {
  try {
    return await globalThis.caches?.open(CACHE);
  } catch {
    return undefined; // private windows of some browsers
  }
}

/** @param {string} name @param {Uint8Array} content @param {string} sha256 */
async function checkHash(name, content, sha256) {
  if ((await hashOf(content)) !== sha256)
    throw new BundleError(`${name} is not the file that was exported (its sha256 differs): copy the bundle again`);
}

/** @param {Uint8Array} content */
export async function hashOf(content) {
  const crypto = globalThis.crypto?.subtle;
  if (!crypto) throw new BrowserError("this page cannot check its files: open it with https, or on localhost");
  const digest = await crypto.digest("SHA-256", /** @type {BufferSource} */ (content));
  return Array.from(new Uint8Array(digest), byte => byte.toString(16).padStart(2, "0")).join("");
}
