// Vocabularies that are a plain list of tokens: words or characters; see runtime/seq2edge/text/vocabularies/plain.py.

import { DataError } from "../errors.mjs";
import { SPACE, WORD, countCharacters, splitSpaces } from "../text/unicode.mjs";
import { decodePiece } from "./utf8.mjs";

/** @typedef {import("./vocabulary.mjs").VocabularyFiles} VocabularyFiles */
/** @typedef {import("../bundle/manifest.mjs").SpecialTokens} SpecialTokens */

const WORDS = new RegExp(`[${WORD}]+|[^${WORD}${SPACE}]`, "gu");
const SUPERFLUOUS_SPACE = / (?=[.,;:!?)\]}%»])|(?<=[([{«]) /gu;

/** Tokens and their ids; padding, start, end and `silent` tokens are never read from a text or written to one. */
export class TokenList {
  /** @param {Map<string, number>} ids @param {SpecialTokens} tokens @param {number[]} silent */
  constructor(ids, tokens, silent = []) {
    const special = new Set([tokens.pad, tokens.bos, tokens.eos, ...silent]);
    this.unknown = tokens.unk;
    this.size = largest(ids.values()) + 1;
    this.ids = new Map([...ids].filter(([, id]) => !special.has(id)));
    this.tokens = new Map([...this.ids].map(([token, id]) => [id, token]));
  }

  /** @param {string[]} tokens */
  idsOf(tokens) {
    return tokens.map(token => this.ids.get(token) ?? this.unknown);
  }

  /** @param {number[]} ids */
  tokensOf(ids) {
    return ids.flatMap(id => this.tokens.get(id) ?? []);
  }

  /** @param {string[]} tokens @param {number[]} ids */
  unknownCharacters(tokens, ids) {
    return tokens.reduce((sum, token, index) => sum + (ids[index] === this.unknown ? countCharacters(token) : 0), 0);
  }
}

/** Every Unicode code point is a token, including spaces. */
export class CharacterVocabulary {
  /** @param {VocabularyFiles} files */
  constructor({ name, vocabulary, tokens }) {
    this.list = new TokenList(readIds(name, vocabulary), tokens);
    this.size = this.list.size;
    this.unknownIds = new Set([this.list.unknown]);
  }

  /** @param {string} text */
  tokenize(text) {
    return [...text];
  }

  /** @param {string} text */
  encode(text) {
    return this.list.idsOf(this.tokenize(text));
  }

  /** @param {number[]} ids */
  decode(ids) {
    return this.list.tokensOf(ids).join("");
  }

  /** @param {string} text @param {number[]} ids */
  unknownCharacters(text, ids) {
    return this.list.unknownCharacters(this.tokenize(text), ids);
  }
}

/** Every word is a token. */
export class WordVocabulary extends CharacterVocabulary {
  /** @param {VocabularyFiles} files */
  constructor(files) {
    super(files);
    this.rule = files.rules.split;
  }

  /** @param {string} text */
  tokenize(text) {
    return splitWords(text, this.rule);
  }

  /** @param {number[]} ids */
  decode(ids) {
    return joinWords(this.list.tokensOf(ids), this.rule);
  }
}

/** @param {string} text @param {string} rule */
export function splitWords(text, rule) {
  if (rule === "blanks") return text.replace(/^[\r\n ]+|[\r\n ]+$/gu, "").split(" ").filter(word => word);
  return rule === "punctuation" ? text.match(WORDS) ?? [] : splitSpaces(text);
}

/** @param {string[]} words @param {string} rule */
export function joinWords(words, rule) {
  const text = words.join(" ");
  return rule === "punctuation" ? text.replace(SUPERFLUOUS_SPACE, "") : text;
}

/**
 * Return the id of every token, including special tokens; the file is JSON, or has one token per line.
 * @param {string} name @param {Uint8Array} file
 * @returns {Map<string, number>}
 */
export function readIds(name, file) {
  const text = decodePiece(file);
  const content = name.endsWith(".json") ? JSON.parse(text) : text.replace(/\n$/u, "").split("\n");
  if (!Array.isArray(content)) return new Map(Object.entries(content));
  const ids = new Map(content.map((token, id) => [token, id]));
  if (ids.size < content.length) throw new DataError(`${name} is not a vocabulary: a token occurs twice`);
  return ids;
}

/** The largest of more numbers than a call can have arguments. */
function largest(/** @type {Iterable<number>} */ numbers) {
  let found = -1;
  for (const number of numbers) found = Math.max(found, number);
  return found;
}
