// Measures one system in chromium for browser.py: reads a JSON object, writes what was measured.
//
// A fresh profile visits a page, loads the model and translates the sentences one by one. Besides the time on the clock
// it returns the processor time of chromium's renderers, which other work on the machine hardly changes.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../runtime/web/package.json", import.meta.url));
const { chromium } = require("playwright-core");

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const { address, model, sentences, options } = JSON.parse(readFileSync(0, "utf-8"));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS });
try {
  const devtools = await browser.newBrowserCDPSession(), page = await browser.newPage();
  page.setDefaultTimeout(300_000);
  await page.goto(address);
  const first = await timed(devtools, () => page.evaluate(async ({ model, sentences, options }) => {
    const { load } = await import(new URL("system.mjs", location.href).href);
    globalThis.translate = await load(model);
    await globalThis.translate(sentences[0], options[0]);
  }, { model, sentences, options }));
  const results = [];
  for (const one of options) {
    const { clock, processor, value } = await timed(devtools, () => page.evaluate(async ({ sentences, one }) => {
      const outputs = [];
      for (const sentence of sentences) outputs.push(await globalThis.translate(sentence, one));
      return outputs;
    }, { sentences, one }));
    results.push({ clock: clock / sentences.length, processor: processor / sentences.length, outputs: value });
  }
  process.stdout.write(JSON.stringify({ first, results, version: browser.version() }));
} finally {
  await browser.close();
}

/** Return the milliseconds that a call takes, on the clock and of processors, and its value. */
async function timed(devtools, call) {
  const before = await rendererTime(devtools), began = performance.now(), value = await call();
  return { clock: performance.now() - began, processor: (await rendererTime(devtools)) - before, value };
}

async function rendererTime(devtools) {
  const { processInfo } = await devtools.send("SystemInfo.getProcessInfo");
  return 1000 * processInfo.filter(({ type }) => type === "renderer").reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}
