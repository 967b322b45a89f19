// Keeps the page and the runtime in the browser, so that both work offline; bundles keep themselves (bundle.mjs).
// The runtime for WebGPU is kept only when it is used. It also sets the headers that allow threads, for servers that do not.

const VERSION = "development"; // replaced when the site is made
const CACHE = `seq2edge-site-${VERSION}`;
const SITE = "site.json";
const ON_USE = /^libraries\/.*(webgpu|asyncify)/u;
const ISOLATION = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" };

self.addEventListener("install", event => event.waitUntil(install()));
self.addEventListener("activate", event => event.waitUntil(activate()));
self.addEventListener("fetch", event => {
  const path = pathOf(event.request);
  if (path !== null) event.respondWith(answer(event.request, path));
});

/** Keep all files of the page, each checked, or none. */
async function install() {
  const files = new Map([[SITE, await download(SITE)]]);
  const site = await files.get(SITE).clone().json();
  const names = Object.keys(site.files).filter(name => !name.startsWith("bundles/") && !name.endsWith(".gz") && !ON_USE.test(name));
  await Promise.all(names.map(async name => {
    const response = await download(name), content = await response.clone().arrayBuffer();
    if ((await sha256(content)) !== site.files[name].sha256) throw new Error(`${name} was changed or is incomplete`);
    files.set(name, response);
  }));
  const cache = await caches.open(CACHE);
  for (const [name, response] of files) await cache.put(new URL(name, registration.scope), response);
  await self.skipWaiting();
}

async function activate() {
  const old = (await caches.keys()).filter(name => name.startsWith("seq2edge-site-") && name !== CACHE);
  await Promise.all(old.map(name => caches.delete(name)));
  await clients.claim();
}

async function answer(request, path) {
  const cache = await caches.open(CACHE), kept = await cache.match(new URL(path, registration.scope));
  const response = kept ?? (await fetch(request));
  if (response.type === "opaque" || response.type === "error" || response.status === 304) return response;
  if (!kept && response.ok && ON_USE.test(path)) await cache.put(new URL(path, registration.scope), response.clone());
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(ISOLATION)) headers.set(name, value);
  headers.set("Cross-Origin-Resource-Policy", "same-origin");
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}

/** The path of a request for a file of this site, or null. */
function pathOf(request) {
  if (request.method !== "GET" || !request.url.startsWith(registration.scope)) return null;
  const path = new URL(request.url).href.slice(registration.scope.length).replace(/[?#].*$/u, "");
  if (path.startsWith("bundles/")) return null;
  return path || "index.html";
}

async function download(name) {
  const response = await fetch(new URL(name, registration.scope), { cache: "no-cache" });
  if (!response.ok) throw new Error(`${name} cannot be loaded (${response.status})`);
  return response;
}

async function sha256(content) {
  const digest = await crypto.subtle.digest("SHA-256", content);
  return Array.from(new Uint8Array(digest), byte => byte.toString(16).padStart(2, "0")).join("");
}
