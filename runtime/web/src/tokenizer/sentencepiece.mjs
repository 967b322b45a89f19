// Vocabularies that use SentencePiece: a model alone, with a separate list of ids, or with the extra tokens of T5.

import { countCharacters, strip } from "../text/unicode.mjs";
import { TokenList, readIds } from "./plain.mjs";
import { SPACE, SentencePieceModel } from "./sentencepiece_model.mjs";
import { decodePiece } from "./utf8.mjs";

/** @typedef {import("./vocabulary.mjs").VocabularyFiles} VocabularyFiles */

const BYTE = /^<0x([0-9A-F]{2})>$/u; // a byte of a character that has no piece
const LANGUAGE_TAG = /^>>.*?<</su, ALL_LANGUAGE_TAG = /^>>.*?<<$/su;

/** A SentencePiece model: its pieces are the tokens, with the ids of the model. */
export class SentencePieceVocabulary {
  /** @param {VocabularyFiles} files */
  constructor({ vocabulary }) {
    this.model = new SentencePieceModel(vocabulary);
    this.size = this.model.pieces.length;
    this.unknownIds = new Set([...this.model.pieces.keys()].filter(id => this.model.isUnknown(id)));
  }

  /** @param {string} text */
  encode(text) {
    return this.model.tokenize(text).map(token => token.id);
  }

  /** @param {number[]} ids */
  decode(ids) {
    return this.model.decode(ids);
  }

  /** @param {string} text */
  tokenize(text) {
    return this.model.tokenize(text).map(token => token.piece);
  }

  /** @param {string} text @param {number[]} ids */
  unknownCharacters(text, ids) {
    return countUnknown(this.tokenize(text), ids, this.unknownIds);
  }
}

/** A list of pieces with their ids, and a SentencePiece model that only splits the text, as in Marian and OPUS-MT. */
export class PieceListVocabulary {
  /** @param {VocabularyFiles} files */
  constructor({ name, vocabulary, codes, tokens, rules }) {
    this.ids = readIds(name, vocabulary); // with special tokens: one of the target may be a source piece
    this.list = new TokenList(this.ids, tokens, rules.silent);
    this.model = new SentencePieceVocabulary({ name, vocabulary: codes, codes, tokens, rules });
    this.hasTags = [...this.ids.keys()].some(piece => ALL_LANGUAGE_TAG.test(piece));
    this.size = this.list.size;
    const bytes = [...this.ids].filter(([piece]) => BYTE.test(piece)).map(([, id]) => id);
    this.unknownIds = new Set([this.list.unknown, ...bytes]);
  }

  /** @param {string} text */
  encode(text) {
    return this.tokenize(text).map(piece => this.ids.get(piece) ?? this.list.unknown);
  }

  /** @param {number[]} ids */
  decode(ids) {
    return strip(joinPieces(this.list.tokensOf(ids)).replaceAll(SPACE, " "));
  }

  /** @param {string} text */
  tokenize(text) {
    const [tag, rest] = this.splitTag(text);
    return tag ? [tag, ...this.model.tokenize(rest)] : this.model.tokenize(text);
  }

  /** Split off the language tag at the start of a text, if there is one. @param {string} text */
  splitTag(text) {
    const tag = (this.hasTags && LANGUAGE_TAG.exec(text)?.[0]) || "";
    return [tag, text.slice(tag.length)];
  }

  /** @param {string} text @param {number[]} ids */
  unknownCharacters(text, ids) {
    return countUnknown(this.tokenize(text), ids, this.unknownIds);
  }
}

/** The vocabulary of T5: a SentencePiece model, and special tokens that may occur in a text. */
export class T5Vocabulary {
  /** @param {VocabularyFiles} files */
  constructor(files) {
    const { tokens, rules } = files;
    this.pieces = new SentencePieceVocabulary(files);
    this.unknownIds = this.pieces.unknownIds;
    this.size = this.pieces.size + rules.sentinels;
    this.special = new Map([tokens.pad, tokens.eos, tokens.unk].map(id => [this.pieces.model.pieces[id], id]));
    for (let number = 0; number < rules.sentinels; number++)
      this.special.set(`<extra_id_${number}>`, this.size - 1 - number);
    this.silent = new Set(this.special.values());
    const longestFirst = [...this.special.keys()].sort((one, other) => other.length - one.length);
    this.pattern = new RegExp(`(${longestFirst.map(escapeRegExp).join("|")})`, "u");
  }

  /** @param {string} text */
  encode(text) {
    return this.#parts(text).flatMap(part => this.special.get(part) ?? this.pieces.encode(part));
  }

  /** @param {number[]} ids */
  decode(ids) {
    const pieces = ids.filter(id => !this.silent.has(id)).map(id => this.pieces.model.pieces[id] ?? `<${id}>`);
    const [first = "", ...others] = pieces;
    return first.replaceAll(SPACE, "") + others.join("").replaceAll(SPACE, " ");
  }

  /** @param {string} text */
  tokenize(text) {
    return this.#parts(text).flatMap(part => (this.special.has(part) ? [part] : this.pieces.tokenize(part)));
  }

  /** @param {string} text @param {number[]} ids */
  unknownCharacters(text, ids) {
    const pieces = this.tokenize(text);
    return countUnknown(pieces, ids.map((id, index) => (this.special.has(pieces[index]) ? -1 : id)), this.unknownIds);
  }

  /** @param {string} text */
  #parts(text) {
    return text.split(this.pattern);
  }
}

/** @param {string[]} pieces @param {number[]} ids @param {Set<number>} unknownIds */
function countUnknown(pieces, ids, unknownIds) {
  return pieces.reduce((sum, piece, index) => sum + (unknownIds.has(ids[index]) ? charactersOf(piece) : 0), 0);
}

/** Return how many characters a piece stands for; a character in bytes counts with its first byte. */
function charactersOf(/** @type {string} */ piece) {
  const byte = BYTE.exec(piece);
  if (byte) return (parseInt(byte[1], 16) & 0xc0) === 0x80 ? 0 : 1;
  return countCharacters(piece.startsWith(SPACE) ? piece.slice(SPACE.length) : piece);
}

/** Concatenate pieces, with bytes decoded to characters. */
function joinPieces(/** @type {string[]} */ pieces) {
  let text = "";
  /** @type {number[]} */
  let bytes = [];
  for (const piece of [...pieces, ""]) {
    const byte = BYTE.exec(piece);
    if (byte) bytes.push(parseInt(byte[1], 16));
    else {
      text += decodePiece(Uint8Array.from(bytes)) + piece;
      bytes = [];
    }
  }
  return text;
}

/** @param {string} text */
const escapeRegExp = text => text.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&");
