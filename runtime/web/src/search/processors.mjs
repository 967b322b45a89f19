// Logits processors: change the scores of the next token before it is chosen, in the order of Hugging Face.

import { asIds, longest, shortest } from "../options.mjs";
import { logSoftmax } from "./log_softmax.mjs";

/** @typedef {import("../bundle/manifest.mjs").Generation} Generation */
/** @typedef {(tokens: number[], scores: Float32Array) => void} Process changes the scores; tokens include the prefix */
/** @typedef {{ process: Process, applies: (length: number) => boolean }} Processor */

const ALWAYS = () => true;

/** All processors of a search, for the tokens of one row at a time. */
export class LogitsProcessors {
  /** @param {Generation} options @param {number} prefixLength */
  constructor(options, prefixLength) {
    this.processors = processorsFor(options, prefixLength);
  }

  /** Whether any of them applies to sequences of this length. @param {number} length */
  needed(length) {
    return this.processors.some(one => one.applies(length));
  }

  /** @param {number[]} tokens @param {Float32Array} scores */
  apply(tokens, scores) {
    for (const one of this.processors) if (one.applies(tokens.length)) one.process(tokens, scores);
  }
}

/** @param {Generation} options @param {number} prefixLength @returns {Processor[]} */
function processorsFor(options, prefixLength) {
  const least = shortest(options, prefixLength), most = longest(options, prefixLength);
  const eos = asIds(options.eos_token_id), forcedEnd = asIds(options.forced_eos_token_id);
  const badWords = (options.bad_words_ids ?? []).filter(ids => ids.length > 1 || !eos.includes(ids[0]));
  /** @type {Processor[]} */
  const found = [];
  /** @param {boolean} wanted @param {Process} process @param {(length: number) => boolean} [applies] */
  const add = (wanted, process, applies = ALWAYS) => wanted && found.push({ process, applies });
  add(options.repetition_penalty !== 1, repetitionPenalty(options.repetition_penalty));
  add(options.no_repeat_ngram_size > 0, noRepeatNgram(options.no_repeat_ngram_size));
  add(badWords.length > 0, noBadWords(badWords));
  add(least > prefixLength, suppress(eos), length => length < least);
  add(options.forced_bos_token_id !== null, force(asIds(options.forced_bos_token_id)), length => length === 1);
  add(forcedEnd.length > 0, force(forcedEnd), length => length === most - 1);
  add(!!options.suppress_tokens?.length, suppress(options.suppress_tokens ?? []));
  add(options.renormalize_logits, (_, scores) => scores.set(logSoftmax(scores)));
  return found;
}

/** Lower the scores of tokens that the sequence has already, prefix included. @param {number} penalty @returns {Process} */
function repetitionPenalty(penalty) {
  const factor = Math.fround(penalty);
  return (tokens, scores) => {
    for (const token of new Set(tokens))
      if (token < scores.length) scores[token] = scores[token] < 0 ? scores[token] * factor : scores[token] / factor;
  };
}

/** Forbid a token that would complete an n-gram of this size a second time. @param {number} size @returns {Process} */
function noRepeatNgram(size) {
  return (tokens, scores) => {
    const begun = tokens.length + 1 - size; // where the n-gram that the next token completes begins
    for (let start = 0; start + size <= tokens.length; start++) {
      let same = 0;
      while (same < size - 1 && tokens[start + same] === tokens[begun + same]) same++;
      if (same === size - 1) forbid(scores, tokens[start + same]);
    }
  };
}

/** Forbid a token that would complete one of these sequences. @param {number[][]} badWords @returns {Process} */
function noBadWords(badWords) {
  return (tokens, scores) => {
    for (const ids of badWords) {
      const first = tokens.length + 1 - ids.length;
      if (first >= 0 && ids.slice(0, -1).every((id, index) => tokens[first + index] === id)) forbid(scores, ids[ids.length - 1]);
    }
  };
}

/** Forbid all but these tokens. @param {number[]} forced @returns {Process} */
function force(forced) {
  return (_, scores) => {
    scores.fill(-Infinity);
    for (const token of forced) scores[token] = 0;
  };
}

/** @param {number[]} ids @returns {Process} */
function suppress(ids) {
  return (_, scores) => {
    for (const token of ids) forbid(scores, token);
  };
}

/** @param {Float32Array} scores @param {number} token outside the vocabulary is ignored */
function forbid(scores, token) {
  if (token < scores.length) scores[token] = -Infinity;
}
