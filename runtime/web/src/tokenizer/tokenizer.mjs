// Convert text to token ids and back, with a source and a target vocabulary.

import { BundleError, DataError } from "../errors.mjs";
import { isSpace, plainSpaces } from "../text/unicode.mjs";
import { loadVocabulary } from "./vocabulary.mjs";

/** @typedef {import("../bundle/manifest.mjs").Manifest} Manifest */
/** @typedef {import("./vocabulary.mjs").Vocabulary} Vocabulary */
/** @typedef {import("../languages.mjs").Tags} Tags */

const NO_ID = -1; // placeholder for the id of a token that was cut off
const INVISIBLE = /^[\p{C}\p{M}\u115f\u1160\u2800\u3164]$/u; // the last are letters and symbols without a visible glyph
const LONE_SURROGATE = /\p{Surrogate}/u;

/** The special tokens around the ids of a source text, and outside these the language tags. */
export class Frame {
  /** @param {{ before: number[], after: number[], pad: number, length: number, tags: Tags }} parts */
  constructor({ before, after, pad, length, tags }) {
    this.head = [...tags.before, ...before];
    this.tail = [...after, ...tags.after];
    this.pad = pad;
    this.length = length; // padded with `pad` to this length
  }

  /** @param {number[]} ids */
  wrap(ids) {
    const framed = [...this.head, ...ids, ...this.tail];
    while (framed.length < this.length) framed.push(this.pad);
    return framed;
  }

  /** Remove tokens from the end of the text, but keep the tail. @param {number[]} framed @param {number} maxTokens */
  truncate(framed, maxTokens) {
    return [...framed.slice(0, maxTokens - this.tail.length), ...framed.slice(framed.length - this.tail.length)];
  }

  /** Return the ids of the text, without special tokens and padding. @param {number[]} framed */
  textIds(framed) {
    let end = framed.length;
    while (this.length && end > this.head.length && framed[end - 1] === this.pad) end--;
    if (this.tail.every((id, index) => framed[end - this.tail.length + index] === id)) end -= this.tail.length;
    return framed.slice(this.head.length, Math.max(end, this.head.length));
  }
}

/** A source and a target vocabulary, which may be the same, and the text processing around them. */
export class Tokenizer {
  /**
   * @param {object} parts
   * @param {Vocabulary} parts.source @param {Vocabulary} parts.target
   * @param {import("../bundle/manifest.mjs").Tokenization} parts.rules
   * @param {import("../bundle/manifest.mjs").SpecialTokens} parts.tokens
   * @param {Tags} [parts.tags] of the languages
   * @param {string | null} [parts.sourcePrefix] put before every source text; null is that of the bundle
   */
  constructor({ source, target, rules, tokens, tags = { before: [], after: [] }, sourcePrefix = null }) {
    this.source = source;
    this.target = target;
    this.rules = rules;
    this.tokens = tokens;
    this.sourcePrefix = sourcePrefix ?? rules.source_prefix;
    const before = rules.source_bos ? [tokens.bos] : [], after = rules.source_eos ? [tokens.eos] : [];
    this.frame = new Frame({ before, after, pad: tokens.pad, length: rules.source_length, tags });
  }

  /** Return a copy for these languages and this source prefix. @param {Tags} tags @param {string | null} sourcePrefix */
  with(tags, sourcePrefix) {
    return new Tokenizer({ ...this, tags, sourcePrefix });
  }

  /** Return the source ids of a text, with special tokens. @param {string} text */
  encode(text) {
    return this.frame.wrap(this.source.encode(this.sourcePrefix + this.#normalize(text)));
  }

  /** Do the same, but return no ids for a text without visible characters. @param {string} text */
  encodeVisible(text) {
    const normalized = this.#normalize(text), ids = this.source.encode(this.sourcePrefix + normalized);
    const own = this.sourcePrefix ? this.source.encode(normalized) : ids;
    return own.length && [...text].some(isVisible) ? this.frame.wrap(ids) : [];
  }

  /** Return the target ids of a text that an output has to start with. @param {string} text */
  encodePrefix(text) {
    return this.target.encode(this.#normalize(text));
  }

  /**
   * Count the characters of a source text without a token; `ids` come from `encode`, and may be truncated.
   * @param {string} text @param {number[]} ids
   */
  unknownCharacters(text, ids) {
    if (!ids.some(id => this.source.unknownIds.has(id))) return 0;
    const prepared = this.sourcePrefix + this.#normalize(text), all = this.source.encode(prepared);
    const kept = this.frame.textIds(ids).length;
    return this.source.unknownCharacters(prepared, all.map((id, index) => (index < kept ? id : NO_ID)));
  }

  /** Split off a language tag at the start of a text, if the vocabulary has such tags. @param {string} text */
  splitTag(text) {
    return this.source.splitTag ? this.source.splitTag(text) : ["", text];
  }

  /** Return the text of target ids, without special tokens and ids without a token. @param {number[]} ids */
  decode(ids) {
    return this.target.decode(ids.filter(id => id >= 0 && id < this.target.size));
  }

  /** @param {string} text */
  #normalize(text) {
    const lone = LONE_SURROGATE.exec(text);
    if (lone) throw new DataError(`the text is not valid Unicode: it has a lone surrogate at character ${lone.index + 1}`);
    const lowered = this.rules.lowercase ? text.toLowerCase() : text;
    return this.rules.plain_spaces ? plainSpaces(lowered) : lowered;
  }
}

/** Load the tokenizer of a bundle. @param {Manifest} manifest @param {Map<string, Uint8Array>} files @param {any} library of tokenizer.json */
export function loadTokenizer({ tokenizer: rules, tokens }, files, library) {
  if (rules.moses) throw new BundleError("the bundle needs Moses' tokenizer, which this page does not have");
  /** @param {string} name @param {string} codes @param {number} unk */
  const load = (name, codes, unk) => loadVocabulary({
    name, vocabulary: fileOf(files, name), codes: codes ? fileOf(files, codes) : new Uint8Array(),
    tokens: { ...tokens, unk }, rules, library,
  });
  const sourceUnknown = tokens.source_unk ?? tokens.unk;
  const isJoint = rules.source === rules.target && rules.source_codes === rules.target_codes && sourceUnknown === tokens.unk;
  const source = load(rules.source, rules.source_codes, sourceUnknown);
  const target = isJoint ? source : load(rules.target, rules.target_codes, tokens.unk);
  return new Tokenizer({ source, target, rules, tokens });
}

/** @param {Map<string, Uint8Array>} files @param {string} name */
function fileOf(files, name) {
  const file = files.get(name);
  if (!file) throw new BundleError(`the bundle has no file ${name}`);
  return file;
}

/** Return whether a character is visible alone: no space, control or format character, or combining mark. */
function isVisible(/** @type {string} */ character) {
  return !(isSpace(character) || INVISIBLE.test(character));
}
