// Byte-pair encoding with codes of subword-nmt or fastBPE; see runtime/seq2edge/text/vocabularies/bpe.py.

import { DataError } from "../errors.mjs";
import { splitSpaces } from "../text/unicode.mjs";
import { TokenList, joinWords, readIds, splitWords } from "./plain.mjs";
import { decodePiece } from "./utf8.mjs";

/** @typedef {import("./vocabulary.mjs").VocabularyFiles} VocabularyFiles */

const CONTINUATION = "@@", WORD_END = "</w>";
const MAX_CACHED_WORDS = 50_000; // most words of a text occurred before

/** The tokens are pieces of words; a piece inside a word ends in `@@`. */
export class BpeVocabulary {
  /** @type {Map<string, string[]>} */
  #cache = new Map();

  /** @param {VocabularyFiles} files */
  constructor({ name, vocabulary, codes, tokens, rules }) {
    this.list = new TokenList(readIds(name, vocabulary), tokens);
    this.size = this.list.size;
    this.unknownIds = new Set([this.list.unknown]);
    this.rule = rules.split;
    this.ranks = readCodes(codes);
  }

  /** @param {string} text */
  tokenize(text) {
    const pieces = splitWords(text, this.rule).flatMap(word => this.#splitWord(word));
    return this.rule === "blanks" ? pieces.flatMap(splitSpaces) : pieces; // other white space separates pieces
  }

  /** @param {string} text */
  encode(text) {
    return this.list.idsOf(this.tokenize(text));
  }

  /** @param {number[]} ids */
  decode(ids) {
    const text = this.list.tokensOf(ids).join(" ").replaceAll(`${CONTINUATION} `, "");
    return joinWords(withoutEnd(text, CONTINUATION).split(" "), this.rule);
  }

  /** @param {string} text @param {number[]} ids */
  unknownCharacters(text, ids) {
    return this.list.unknownCharacters(this.tokenize(text).map(piece => withoutEnd(piece, CONTINUATION)), ids);
  }

  /** @param {string} word */
  #splitWord(word) {
    const known = this.#cache.get(word);
    if (known) return known;
    if (this.#cache.size >= MAX_CACHED_WORDS) this.#cache.clear();
    const letters = [...word];
    letters[letters.length - 1] += WORD_END;
    const pieces = applyMerges(letters, this.ranks);
    const last = withoutEnd(pieces.pop() ?? "", WORD_END);
    const found = [...pieces.map(piece => piece + CONTINUATION), last];
    this.#cache.set(word, found);
    return found;
  }
}

/**
 * Merge adjacent pieces, each merge at all positions at once and in the order of `ranks`, until none is left.
 * @param {string[]} pieces @param {Map<string, number>} ranks by the two pieces with a space between them
 */
function applyMerges(pieces, ranks) {
  for (;;) {
    let best = Infinity;
    for (let index = 0; index + 1 < pieces.length; index++)
      best = Math.min(best, ranks.get(`${pieces[index]} ${pieces[index + 1]}`) ?? Infinity);
    if (best === Infinity) return pieces;
    const merged = [];
    for (let index = 0; index < pieces.length; index++) {
      const isPair = index + 1 < pieces.length && ranks.get(`${pieces[index]} ${pieces[index + 1]}`) === best;
      merged.push(isPair ? pieces[index] + pieces[++index] : pieces[index]);
    }
    pieces = merged;
  }
}

/** @param {Uint8Array} codes */
function readCodes(codes) {
  const lines = decodePiece(codes).replace(/\n$/u, "").split("\n");
  if (lines[0].startsWith("#version")) lines.shift();
  /** @type {Map<string, number>} */
  const ranks = new Map();
  for (const [rank, line] of lines.filter(line => splitSpaces(line).length).entries()) {
    const merge = line.split(" ").slice(0, 2);
    if (merge.length < 2 || merge.includes(WORD_END))
      throw new DataError("the BPE codes are not those of subword-nmt 0.2 or newer, or of fastBPE");
    const pair = merge.join(" ");
    if (!ranks.has(pair)) ranks.set(pair, rank);
  }
  return ranks;
}

/** @param {string} text @param {string} end */
const withoutEnd = (text, end) => (text.endsWith(end) ? text.slice(0, -end.length) : text);
