// Use a tokenizer.json through @huggingface/tokenizers, such as the byte-level BPE of BART.

import { DataError } from "../errors.mjs";
import { decodePiece } from "./utf8.mjs";

/** @typedef {import("./vocabulary.mjs").VocabularyFiles} VocabularyFiles */
/** @typedef {import("@huggingface/tokenizers").Tokenizer} HuggingFaceTokenizer */

/** The vocabulary of a tokenizer.json, without its special tokens, truncation and padding. */
export class TokenizerJsonVocabulary {
  /** @param {VocabularyFiles} files */
  constructor({ name, vocabulary, tokens, library }) {
    if (!library) throw new DataError(`${name} needs the package @huggingface/tokenizers, which is not at hand`);
    try {
      /** @type {HuggingFaceTokenizer} */
      this.model = new library.Tokenizer(JSON.parse(decodePiece(vocabulary)), {});
    } catch (error) {
      throw new DataError(`${name} is not a tokenizer.json that this page can use (${error})`);
    }
    this.unknownIds = new Set([tokens.unk]);
    this.size = 1 + [...this.model.get_vocab(true).values()].reduce((one, other) => Math.max(one, other), -1);
  }

  /** @param {string} text */
  encode(text) {
    return this.model.encode(text, { add_special_tokens: false }).ids;
  }

  /** @param {number[]} ids */
  decode(ids) {
    if (!ids.length) return ""; // which the library refuses
    return this.model.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false });
  }

  /** Count the unknown tokens: the library does not tell which characters they stand for. */
  unknownCharacters(/** @type {string} */ text, /** @type {number[]} */ ids) {
    return ids.filter(id => this.unknownIds.has(id)).length;
  }
}
