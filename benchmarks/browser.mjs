// Measures one system in chromium for browser.py: reads a JSON object, writes what was measured.
//
// A fresh profile visits a page, loads the model and translates the sentences one by one.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const require = createRequire(new URL("../runtime/web/package.json", import.meta.url));
const { chromium } = require("playwright-core");

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const { address, model, sentences, options } = JSON.parse(readFileSync(0, "utf-8"));
const profile = mkdtempSync(join(tmpdir(), "seq2edge-bench-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS,
});
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(300_000);
  await page.goto(address);
  const found = await page.evaluate(async ({ model, sentences, options }) => {
    const began = performance.now(), { load } = await import(new URL("system.mjs", location.href).href);
    const translate = await load(model);
    await translate(sentences[0], options[0]);
    const first = performance.now() - began, results = [];
    for (const one of options) {
      const start = performance.now(), outputs = [];
      for (const sentence of sentences) outputs.push(await translate(sentence, one));
      results.push({ milliseconds: (performance.now() - start) / sentences.length, outputs });
    }
    return { first, results };
  }, { model, sentences, options });
  process.stdout.write(JSON.stringify({ ...found, version: browser.browser()?.version() ?? "" }));
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
