// Translate text with a bundle, in this thread; client.mjs does it in a worker.

import { readBundle } from "./bundle/bundle.mjs";
import { Engine } from "./engine/engine.mjs";
import { UsageError } from "./errors.mjs";
import { resolveOptions, within } from "./options.mjs";
import { lengthNormalizer } from "./search/beam.mjs";
import { search, streamSearch } from "./search/search.mjs";
import { repeats } from "./text/repetition.mjs";
import { joinTexts, makeSegments, stablePrefix } from "./text/segments.mjs";
import { loadTokenizer } from "./tokenizer/tokenizer.mjs";

/** @typedef {import("./bundle/manifest.mjs").Generation} Generation */
/** @typedef {import("./bundle/manifest.mjs").Manifest} Manifest */
/** @typedef {import("./options.mjs").Options} Options */
/** @typedef {import("./options.mjs").CallOptions} CallOptions */
/** @typedef {import("./text/segments.mjs").Segment} Segment */
/** @typedef {import("./tokenizer/tokenizer.mjs").Tokenizer} Tokenizer */
/** @typedef {import("./search/greedy.mjs").Hypothesis} Hypothesis */
/**
 * @typedef {object} Translation as seq2edge's own, see docs/api.md
 * @property {string} text
 * @property {number[]} tokens @property {number} score @property {number[]} token_scores
 * @property {boolean} ended false: cut at the length limit
 * @property {boolean} repeats true: it is stuck in a loop
 * @property {number} sentences @property {number} parts @property {boolean} truncated
 * @property {number} unknown characters that the vocabulary lacks
 * @property {number} missing alternatives that were requested but do not exist
 * @property {string[]} notes
 * @property {Translation[]} alternatives
 */

const BATCH_TOKENS = 1024;
const UNFINISHED_CHARACTER = "\ufffd";

/** Translates with the sessions of a bundle. */
export class BundleTranslator {
  /** @param {Manifest} manifest @param {Engine} engine @param {Tokenizer} tokenizer */
  constructor(manifest, engine, tokenizer) {
    this.manifest = manifest;
    this.engine = engine;
    this.tokenizer = tokenizer;
    this.longest = manifest.max_positions;
  }

  /**
   * Load a bundle whose files `read` returns.
   * @param {import("./bundle/bundle.mjs").ReadFile} read
   * @param {object} options
   * @param {typeof import("onnxruntime-web")} options.ort
   * @param {() => Promise<typeof import("@huggingface/tokenizers")>} [options.tokenizers] for a tokenizer.json
   * @param {string} [options.sha256] of the manifest
   * @param {(loaded: number, total: number) => void} [options.onProgress]
   */
  static async load(read, { ort, tokenizers, sha256, onProgress }) {
    const bundle = await readBundle(read, { sha256, onProgress });
    return BundleTranslator.open(bundle, await Engine.load(ort, bundle), tokenizers);
  }

  /**
   * Translate with the engine of a bundle that was read.
   * @param {import("./bundle/bundle.mjs").Bundle} bundle @param {Engine} engine
   * @param {() => Promise<typeof import("@huggingface/tokenizers")>} [tokenizers]
   */
  static async open({ manifest, files }, engine, tokenizers) {
    const library = manifest.tokenizer.kind === "tokenizers" ? await tokenizers?.() : undefined;
    return new BundleTranslator(manifest, engine, loadTokenizer(manifest, files, library));
  }

  /**
   * Translate texts; sentences of all of them share batches.
   * @param {string[]} texts @param {Options} [options]
   * @returns {Promise<Translation[]>}
   */
  async translate(texts, options = {}) {
    texts.forEach(checkText);
    const call = resolveOptions(options, this.manifest), tokenizer = this.#tokenizer(call);
    const segments = this.#segments(texts, tokenizer, call);
    const prefixes = segments.map(segment => this.#prefix(segment, call));
    /** @type {Translation[][]} */
    const ranked = [];
    for (const batch of this.#batches(segments, prefixes, call.generation)) {
      const found = await this.#decode(batch.map(index => segments[index].ids), batch.map(index => prefixes[index]), call);
      batch.forEach((index, row) => { ranked[index] = this.#translations(segments[index], found[row], prefixes[index], tokenizer); });
    }
    return texts.map((_, textIndex) => {
      const own = [...segments.keys()].filter(index => segments[index].textIndex === textIndex);
      return joined(own.map(index => segments[index]), own.map(index => ranked[index]), call.generation);
    });
  }

  /**
   * Translate one text; yield pieces of the translation as soon as they cannot change, and return the translation.
   * @param {string} text @param {Options} [options]
   * @returns {AsyncGenerator<string, Translation>}
   */
  async *stream(text, options = {}) {
    checkText(text);
    const call = resolveOptions(options, this.manifest), tokenizer = this.#tokenizer(call);
    if (call.generation.num_return_sequences > 1)
      throw new UsageError("a stream is one translation: set num_return_sequences to 1");
    const segments = this.#segments([text], tokenizer, call);
    /** @type {Translation[][]} */
    const done = [];
    const spaces = ["", ...segments.map(segment => segment.space)];
    let sent = "";
    for (const segment of segments) {
      const prefix = this.#prefix(segment, call), start = [call.generation.decoder_start_token_id, ...prefix];
      const options = within(call.generation, 1 + this.longest, start.length);
      const state = await this.engine.start([segment.ids]);
      try {
        const steps = streamSearch(state, start, options);
        let step = await steps.next();
        for (; !step.done; step = await steps.next()) {
          const texts = ["", ...done.map(([best]) => best.text), tokenizer.decode([...prefix, ...step.value])];
          const piece = newPiece(sent, joinTexts(texts, spaces));
          if (piece) yield piece;
          sent += piece;
        }
        done.push(this.#translations(segment, [step.value], prefix, tokenizer));
      } finally {
        state.release();
      }
    }
    const whole = joined(segments, done, call.generation);
    if (whole.text.length > sent.length) yield whole.text.slice(sent.length);
    return whole;
  }

  /** Free the memory of the sessions. */
  release() {
    return this.engine.release();
  }

  /** @param {CallOptions} call */
  #tokenizer(call) {
    return this.tokenizer.with(call.tags, call.text.source_prefix);
  }

  /** @param {string[]} texts @param {Tokenizer} tokenizer @param {CallOptions} call */
  #segments(texts, tokenizer, { text: { long, split } }) {
    return makeSegments(texts, tokenizer, { maxTokens: this.longest, long, split });
  }

  /** Return what a segment's output has to begin with; only the first segment of a text has a prefix. @param {Segment} segment @param {CallOptions} call */
  #prefix(segment, { text, generation }) {
    if (!text.prefix || segment.index > 0) return [];
    const prefix = this.tokenizer.encodePrefix(text.prefix), forced = generation.forced_bos_token_id;
    if (prefix.length && forced !== null && prefix[0] !== forced) prefix.unshift(forced);
    if (prefix.length >= this.longest)
      throw new UsageError(`the prefix has ${prefix.length} tokens, but the model generates at most ${this.longest}`);
    return prefix;
  }

  /** Return the indices of the segments in each batch, of similar length. @param {Segment[]} segments @param {number[][]} prefixes @param {Generation} options */
  #batches(segments, prefixes, options) {
    const mostRows = Math.max(1, Math.floor(this.engine.mostRows / options.num_beams));
    /** @type {number[][]} */
    const batches = [];
    for (const prefixLength of new Set(prefixes.map(prefix => prefix.length))) {
      const own = [...segments.keys()].filter(index => prefixes[index].length === prefixLength);
      own.sort((one, other) => segments[other].ids.length - segments[one].ids.length);
      let batch = /** @type {number[]} */ ([]);
      for (const index of own) {
        const rows = batch.length + 1;
        if (!batch.length || rows > mostRows || segments[batch[0]].ids.length * rows > BATCH_TOKENS) batches.push((batch = []));
        batch.push(index);
      }
    }
    return batches;
  }

  /** @param {number[][]} sources @param {number[][]} prefixes @param {CallOptions} call */
  async #decode(sources, prefixes, { generation }) {
    const starts = prefixes.map(prefix => [generation.decoder_start_token_id, ...prefix]);
    const state = await this.engine.start(sources);
    try {
      return await search(state, starts, within(generation, 1 + this.longest, starts[0].length));
    } finally {
      state.release();
    }
  }

  /** @param {Segment} segment @param {Hypothesis[]} hypotheses @param {number[]} prefix @param {Tokenizer} tokenizer @returns {Translation[]} */
  #translations(segment, hypotheses, prefix, tokenizer) {
    const real = hypotheses.filter((one, index) => !index || !one.placeholder);
    return real.map(one => {
      const tokens = [...prefix, ...one.tokens];
      return withNotes({
        text: tokenizer.decode(tokens), tokens, score: one.score, token_scores: one.tokenScores, ended: one.ended,
        repeats: repeats(tokens, tokenizer.frame.textIds(segment.ids)), sentences: 1, parts: 1,
        truncated: segment.truncated, unknown: segment.unknown, missing: 0, notes: [], alternatives: [],
      });
    });
  }
}

/** Return what a text adds to what was sent, as far as it cannot change any more. @param {string} sent @param {string} text */
function newPiece(sent, text) {
  const stable = text.endsWith(UNFINISHED_CHARACTER) ? "" : stablePrefix(text);
  return stable.startsWith(sent) ? stable.slice(sent.length) : "";
}

/**
 * Join the ranked translations of the segments of a text: the n-th best ones make the n-th of the text.
 * @param {Segment[]} segments @param {Translation[][]} ranked @param {Generation} options
 * @returns {Translation}
 */
function joined(segments, ranked, options) {
  const count = Math.max(1, ...ranked.map(best => best.length));
  const [first, ...others] = Array.from({ length: count }, (_, rank) => (
    joinRank(segments, ranked.map(best => best[Math.min(rank, best.length - 1)]), options)));
  return withNotes({ ...first, alternatives: others, missing: segments.length ? options.num_return_sequences - count : 0 });
}

/** @param {Segment[]} segments @param {Translation[]} parts @param {Generation} options @returns {Translation} */
function joinRank(segments, parts, options) {
  if (parts.length === 1) return parts[0];
  const token_scores = parts.flatMap(part => part.token_scores);
  const normalizer = options.num_beams > 1 && parts.length ? lengthNormalizer(token_scores.length, options.length_penalty) : 1;
  return withNotes({
    text: joinTexts(parts.map(part => part.text), segments.map(segment => segment.space)),
    tokens: parts.flatMap(part => part.tokens), token_scores,
    score: token_scores.reduce((sum, score) => sum + score, 0) / normalizer,
    ended: parts.every(part => part.ended), repeats: parts.some(part => part.repeats),
    sentences: new Set(segments.map(segment => segment.sentence)).size || 1, parts: parts.length || 1,
    truncated: parts.some(part => part.truncated), unknown: parts.reduce((sum, part) => sum + part.unknown, 0),
    missing: 0, notes: [], alternatives: [],
  });
}

/** Describe the number of sentences if there are several, and possible problems, as phrases for display. @param {Translation} one */
function withNotes(one) {
  const notes = /** @type {[string, boolean][]} */ ([
    [`has ${one.sentences} sentences`, one.sentences > 1],
    [`was too long and was split into ${one.parts} parts`, one.parts > one.sentences],
    ["was too long and lost its end", one.truncated],
    [`has ${one.unknown === 1 ? "1 character" : `${one.unknown} characters`} unknown to the model`, one.unknown > 0],
    ["was cut at the length limit", !one.ended],
    ["repeats itself", one.repeats],
    [`has ${one.missing} fewer alternatives than requested`, one.missing > 0],
  ]);
  return { ...one, notes: notes.filter(([, applies]) => applies).map(([note]) => note) };
}

/** @param {unknown} text */
function checkText(text) {
  if (typeof text !== "string") throw new UsageError(`a text is ${typeof text}, but must be a string`);
}
