// Visits a site in chromium for the Python tests: reads a JSON object of wishes, writes what was seen.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { chromium } from "playwright-core";

const TIMEOUT = 180_000;
const FLAGS = ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const DONE = "body[data-ready], body[data-failed]";

/**
 * @typedef {object} Wishes
 * @property {string} address @property {string[]} [flags] of chromium
 * @property {string} [bundle] @property {string[]} [texts] @property {object[]} [options] @property {object} [load] to translate with
 * @property {string} [former] a file of the bundle whose former version this browser has kept
 * @property {string} [type] a text @property {boolean} [offline] @property {string} [pictures] folder for screenshots
 */

/** @type {Wishes} */
const wishes = JSON.parse(readFileSync(0, "utf-8"));
const profile = mkdtempSync(join(tmpdir(), "seq2edge-chromium-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true,
  args: [...FLAGS, ...(wishes.flags ?? ["--disable-gpu"])],
  viewport: { width: 1100, height: 720 }, timeout: TIMEOUT,
});
/** @type {Record<string, unknown>} */
const seen = {};
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(TIMEOUT);
  /** @type {string[]} */
  const errors = [];
  page.on("pageerror", error => errors.push(`${error}`));
  await page.goto(wishes.address);
  await page.waitForSelector(DONE);
  seen.status = await page.textContent("#status");
  seen.failed = (await page.getAttribute("body", "data-failed")) !== null;
  seen.isolated = await page.evaluate(() => crossOriginIsolated);
  if (wishes.texts) Object.assign(seen, await translate(page));
  if (wishes.former) seen.kept = await loadAfterChange(page);
  if (wishes.type) seen.typed = await type(page, wishes.type);
  if (wishes.pictures) seen.pictures = await takePictures(page, wishes.pictures);
  if (wishes.offline) seen.offline = await visitOffline(page);
  seen.errors = errors;
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
process.stdout.write(JSON.stringify(seen));

/** Translate with the package, as a page of one's own would. @param {import("playwright-core").Page} page */
function translate(page) {
  return page.evaluate(async ({ bundle, texts, options, load }) => {
    const address = new URL("src/index.mjs", location.href).href;
    /** @type {typeof import("../src/index.mjs")} */
    const { Translator } = await import(address);
    const translator = await Translator.load(/** @type {string} */ (bundle), load);
    const translations = [];
    for (const one of options ?? [{}]) translations.push(await translator.translate(texts ?? [], one));
    translator.close();
    return { translations, threads: translator.threads, device: translator.device };
  }, wishes);
}

/** Load a bundle in a browser that has another version of a file, and return what it keeps. @param {import("playwright-core").Page} page */
function loadAfterChange(page) {
  return page.evaluate(async ({ bundle, former }) => {
    const cache = await caches.open("seq2edge-bundles"), file = new URL(`${bundle}/${former}`, location.href).href;
    await cache.delete(file, { ignoreSearch: true });
    await cache.put(`${file}?sha256=former`, new Response("former"));
    /** @type {typeof import("../src/index.mjs")} */
    const { Translator } = await import(new URL("src/index.mjs", location.href).href);
    (await Translator.load(/** @type {string} */ (bundle))).close();
    return (await cache.keys()).map(({ url }) => url.slice(location.href.length));
  }, wishes);
}

/** @param {import("playwright-core").Page} page @param {string} text */
async function type(page, text) {
  await page.fill("#text", text);
  await page.waitForSelector("body[data-translated]");
  return page.evaluate(() => /** @type {HTMLOutputElement} */ (document.getElementById("translation")).value);
}

/** @param {import("playwright-core").Page} page */
async function visitOffline(page) {
  await page.waitForSelector("body[data-offline=true]");
  await browser.setOffline(true);
  await page.reload();
  await page.waitForSelector(DONE);
  const status = await page.textContent("#status");
  return { status, isolated: await page.evaluate(() => crossOriginIsolated), typed: await type(page, wishes.type ?? "") };
}

/** @param {import("playwright-core").Page} page @param {string} folder */
async function takePictures(page, folder) {
  const pictures = [];
  for (const [name, width, height] of /** @type {[string, number, number][]} */ ([["desktop", 1100, 720], ["phone", 390, 844]])) {
    await page.setViewportSize({ width, height });
    for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
      await page.emulateMedia({ colorScheme });
      pictures.push(`${folder}/${name}-${colorScheme}.png`);
      await page.screenshot({ path: pictures[pictures.length - 1], fullPage: true });
    }
  }
  return pictures;
}
