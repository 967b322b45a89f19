// Answers requests of the Python tests: reads a JSON list of calls from standard input, writes the list of results.

import { readFileSync } from "node:fs";

import * as ort from "onnxruntime-web/wasm";

import { joinTexts, makeSegments } from "../src/text/segments.mjs";
import { splitSentences } from "../src/text/sentence_splitter.mjs";
import { loadTokenizer } from "../src/tokenizer/tokenizer.mjs";
import { BundleTranslator } from "../src/translator.mjs";

ort.env.wasm.numThreads = 1;

/** @type {Record<string, (request: any) => unknown>} */
const calls = {
  split: ({ texts }) => texts.map(splitSentences),

  join: ({ parts }) => parts.map((/** @type {[string[], string[]]} */ [texts, spaces]) => joinTexts(texts, spaces)),

  async tokenize({ folder, manifest, texts }) {
    const tokenizer = await tokenizerOf(folder, manifest);
    return texts.map((/** @type {string} */ text) => {
      const ids = tokenizer.encode(text);
      return [ids, tokenizer.decode(tokenizer.encodePrefix(text)), tokenizer.unknownCharacters(text, ids)];
    });
  },

  async decode({ folder, manifest, rows }) {
    const tokenizer = await tokenizerOf(folder, manifest);
    return rows.map((/** @type {number[]} */ ids) => tokenizer.decode(ids));
  },

  async segments({ folder, manifest, texts, maxTokens, long, split }) {
    const segments = makeSegments(texts, await tokenizerOf(folder, manifest), { maxTokens, long, split });
    return segments.map(one => [one.textIndex, one.sentence, one.index, one.space, one.text, one.ids]);
  },

  /** Translate the same texts with each of several options. */
  async translate({ folder, texts, options }) {
    const translator = await BundleTranslator.load(readFrom(folder), { ort, tokenizers: () => import("@huggingface/tokenizers") });
    const found = [];
    for (const one of options) found.push(await translator.translate(texts, one));
    return found;
  },

  async stream({ folder, texts, options }) {
    const translator = await BundleTranslator.load(readFrom(folder), { ort });
    const found = [];
    for (const text of texts) {
      const stream = translator.stream(text, options), pieces = [];
      let step = await stream.next();
      for (; !step.done; step = await stream.next()) pieces.push(step.value);
      found.push({ pieces, ...step.value });
    }
    return found;
  },
};

/** @param {string} folder */
const readFrom = folder => async (/** @type {string} */ name) => new Uint8Array(readFileSync(`${folder}/${name}`));

/** @param {string} folder @param {any} manifest */
async function tokenizerOf(folder, manifest) {
  const rules = manifest.tokenizer, names = [rules.source, rules.target, rules.source_codes, rules.target_codes];
  const files = names.filter(name => name).map(name => /** @type {[string, Uint8Array]} */ (
    [name, new Uint8Array(readFileSync(`${folder}/${name}`))]));
  const library = rules.kind === "tokenizers" ? await import("@huggingface/tokenizers") : undefined;
  return loadTokenizer(manifest, new Map(files), library);
}

const requests = JSON.parse(readFileSync(0, "utf-8"));
const answers = [];
for (const request of requests) {
  try {
    answers.push({ value: await calls[request.call](request) });
  } catch (error) {
    answers.push({ error: error instanceof Error ? `${error.name}: ${error.message}` : `${error}` });
  }
}
process.stdout.write(JSON.stringify(answers));
