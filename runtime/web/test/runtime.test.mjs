// Tests that need nothing but node: the vectors of tests/vectors, and what must be refused.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import * as ort from "onnxruntime-web/wasm";

import { hashOf, readBundle } from "../src/bundle/bundle.mjs";
import { readManifest } from "../src/bundle/manifest.mjs";
import { Seq2EdgeError } from "../src/errors.mjs";
import { Writer, fieldsOf } from "../src/protobuf.mjs";
import { topK } from "../src/search/log_softmax.mjs";
import { LogitsProcessors } from "../src/search/processors.mjs";
import { BundleTranslator } from "../src/translator.mjs";

ort.env.wasm.numThreads = 1;
const VECTORS = new URL("../../../tests/vectors/", import.meta.url);
const NAMES = readdirSync(VECTORS, { withFileTypes: true }).filter(entry => entry.isDirectory()).map(entry => entry.name);
const LOGIT_TOLERANCE = 1e-4; // of float32 sums in another order; the logits are around 10

/** @param {string} name @param {Record<string, Uint8Array>} [changed] */
function reader(name, changed = {}) {
  return async (/** @type {string} */ file) => {
    if (changed[file]) return changed[file];
    return new Uint8Array(readFileSync(new URL(`${name}/${file}`, VECTORS)));
  };
}

/** @param {string} name */
const expected = name => JSON.parse(readFileSync(new URL(`${name}/expected.json`, VECTORS), "utf-8"));

/** @param {string} name */
const load = name => BundleTranslator.load(reader(name), { ort });

/** @param {string} name @returns {any} */
const manifestOf = name => JSON.parse(readFileSync(new URL(`${name}/manifest.json`, VECTORS), "utf-8"));

/** @param {unknown} content */
const encode = content => new TextEncoder().encode(JSON.stringify(content));

for (const name of NAMES) {
  test(`the vectors of ${name} hold`, async () => {
    const translator = await load(name), { sentences } = expected(name);
    const greedy = await translator.translate(sentences.map((/** @type {any} */ one) => one.text), { num_beams: 1 });
    const beams = await translator.translate(sentences.map((/** @type {any} */ one) => one.text), { num_beams: 4 });
    for (const [index, one] of sentences.entries()) {
      assert.deepEqual(translator.tokenizer.encode(one.text), one.ids);
      assert.deepEqual(greedy[index].tokens, one.greedy);
      assert.deepEqual(beams[index].tokens, one.beam);
      assert.equal(beams[index].text, one.translation);
      const state = await translator.engine.start([one.ids]);
      const logits = (await state.step([[[translator.manifest.generation.decoder_start_token_id]]], [[0]])).row(0);
      one.first_logits.forEach((/** @type {number} */ logit, /** @type {number} */ token) => (
        assert.ok(Math.abs(logits[token] - logit) < LOGIT_TOLERANCE, `logit ${token}: ${logits[token]} and ${logit}`)));
    }
  });
}

test("a sentence has the same translation alone as in a batch", async () => {
  const translator = await load(NAMES[0]), texts = expected(NAMES[0]).sentences.map((/** @type {any} */ one) => one.text);
  const together = await translator.translate(texts);
  for (const [index, text] of texts.entries()) assert.deepEqual((await translator.translate([text]))[0], together[index]);
});

test("a stream adds up to the translation", async () => {
  const translator = await load(NAMES[0]), { text } = expected(NAMES[0]).sentences[0];
  for (const num_beams of [1, 4]) {
    const stream = translator.stream(text, { num_beams });
    let whole = "", step = await stream.next();
    for (; !step.done; step = await stream.next()) whole += step.value;
    const [translation] = await translator.translate([text], { num_beams });
    assert.equal(whole, translation.text);
    assert.deepEqual(step.value, translation);
  }
});

test("a text without visible characters has an empty translation", async () => {
  const [translation] = await (await load(NAMES[0])).translate([" \n\u200b"]);
  assert.deepEqual([translation.text, translation.tokens, translation.notes], ["", [], []]);
});

test("a file that was changed is refused", async () => {
  const weights = new Uint8Array(readFileSync(new URL(`${NAMES[0]}/weights.bin`, VECTORS)));
  weights[100] ^= 1;
  await assert.rejects(readBundle(reader(NAMES[0], { "weights.bin": weights })), /weights\.bin is not the file that was exported/);
});

test("a file that is cut off is refused", async () => {
  const changed = { "encoder.onnx": new Uint8Array(7) };
  await assert.rejects(readBundle(reader(NAMES[0], changed)), /encoder\.onnx has 7 bytes instead of/);
});

test("a manifest that the page does not expect is refused", async () => {
  await assert.rejects(readBundle(reader(NAMES[0]), { sha256: await hashOf(new Uint8Array()) }), /manifest\.json is not the file/);
});

test("a newer format is refused", () => {
  const manifest = { ...manifestOf(NAMES[0]), format_version: 2 };
  assert.throws(() => readManifest(encode(manifest)), /format version 2, but this page reads version 1; make the site again/);
});

test("unknown, missing and bad entries of a manifest are refused", () => {
  const manifest = manifestOf(NAMES[0]), { rights: _, ...incomplete } = manifest;
  assert.throws(() => readManifest(encode({ ...manifest, more: 1 })), /unknown key 'more'/);
  assert.throws(() => readManifest(encode(incomplete)), /lacks the key 'rights'/);
  const files = { ...manifest.files, "../x": manifest.files["weights.bin"] };
  assert.throws(() => readManifest(encode({ ...manifest, files })), /bad entry '..\/x'/);
  assert.throws(() => readManifest(new TextEncoder().encode("{")), /not valid JSON/);
});

test("an unknown vocabulary is refused", async () => {
  const manifest = manifestOf(NAMES[0]);
  manifest.tokenizer.kind = "runes";
  const read = reader(NAMES[0], { "manifest.json": encode(manifest) });
  await assert.rejects(BundleTranslator.load(read, { ort }), /a vocabulary of the kind 'runes'/);
});

test("wrong options are refused in one sentence", async () => {
  const translator = await load(NAMES[0]);
  for (const [options, message] of /** @type {[any, RegExp][]} */ ([
    [{ beams: 2 }, /unknown option 'beams'/],
    [{ num_beams: 0 }, /num_beams is 0, but must be at least 1/],
    [{ num_beams: 1.5 }, /num_beams is 1.5, but must be an integer/],
    [{ num_return_sequences: 9, num_beams: 4 }, /at most num_beams/],
    [{ do_sample: true }, /do_sample is not supported/],
    [{ max_new_tokens: 100000 }, /maximum output length/],
    [{ max_length: 5, max_new_tokens: 5 }, /both given/],
    [{ early_stopping: "maybe" }, /early_stopping is "maybe"/],
    [{ target_lang: "xx" }, /target_lang is 'xx'/],
    [{ suppress_tokens: [1e6] }, /exceeds the vocabulary/],
  ])) {
    await assert.rejects(translator.translate(["a"], options), error => error instanceof Seq2EdgeError && message.test(error.message));
  }
  await assert.rejects(translator.translate([/** @type {any} */ (1)]), /a text is number/);
  await assert.rejects(translator.translate(["\ud800"]), /lone surrogate at character 1/);
});

test("the best scores come first, and of equal ones the first column", () => {
  const scores = Float32Array.of(1, 5, -Infinity, 5, 3);
  assert.deepEqual(topK(scores, 3), [1, 3, 4]);
  assert.deepEqual(topK(Float32Array.of(-Infinity, -Infinity, 2), 2), [2, 0]);
});

test("processors forbid and force tokens", () => {
  const options = { ...manifestOf(NAMES[0]).generation, no_repeat_ngram_size: 2, suppress_tokens: [4], max_length: 8, max_new_tokens: null };
  const scores = new Float32Array(6).fill(1);
  new LogitsProcessors(options, 1).apply([0, 1, 2, 1], scores);
  assert.deepEqual([...scores], [1, 1, -Infinity, 1, -Infinity, 1]);
  new LogitsProcessors({ ...options, forced_eos_token_id: 3 }, 1).apply([0, 0, 0, 0, 0, 0, 0], scores);
  assert.deepEqual([...scores], [-Infinity, -Infinity, -Infinity, 0, -Infinity, -Infinity]);
});

test("a message is written as it was read", () => {
  const message = new Writer().varint(1, 300).bytes(2, "é").bytes(7, new Uint8Array(200)).finish();
  const copy = new Writer();
  for (const field of fieldsOf(message)) copy.copy(field);
  assert.deepEqual(copy.finish(), message);
  assert.throws(() => [...fieldsOf(message.subarray(0, 50))], /ends in the middle/);
});
