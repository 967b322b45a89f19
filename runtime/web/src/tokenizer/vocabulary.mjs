// Load a vocabulary by its kind; a new kind is a new file and a new line in the table.

import { BundleError } from "../errors.mjs";
import { BpeVocabulary } from "./bpe.mjs";
import { CharacterVocabulary, WordVocabulary } from "./plain.mjs";
import { PieceListVocabulary, SentencePieceVocabulary, T5Vocabulary } from "./sentencepiece.mjs";
import { TokenizerJsonVocabulary } from "./tokenizer_json.mjs";

/** @typedef {import("../bundle/manifest.mjs").Tokenization} Tokenization */
/** @typedef {import("../bundle/manifest.mjs").SpecialTokens} SpecialTokens */
/**
 * @typedef {object} VocabularyFiles
 * @property {string} name of the vocabulary file
 * @property {Uint8Array} vocabulary
 * @property {Uint8Array} codes merges or a SentencePiece model; empty if there are none
 * @property {SpecialTokens} tokens
 * @property {Tokenization} rules
 * @property {typeof import("@huggingface/tokenizers")} [library] only for the kind `tokenizers`
 */
/**
 * @typedef {object} Vocabulary converts texts to ids, without special tokens around them, and back
 * @property {Set<number>} unknownIds ids that stand for characters without a token of their own
 * @property {number} size one more than the highest id
 * @property {(text: string) => number[]} encode
 * @property {(ids: number[]) => string} decode
 * @property {(text: string, ids: number[]) => number} unknownCharacters
 * @property {(text: string) => string[]} [splitTag]
 */

/** @type {Record<string, new (files: VocabularyFiles) => Vocabulary>} */
const KINDS = {
  sentencepiece: SentencePieceVocabulary,
  pieces: PieceListVocabulary,
  t5: T5Vocabulary,
  characters: CharacterVocabulary,
  words: WordVocabulary,
  bpe: BpeVocabulary,
  tokenizers: TokenizerJsonVocabulary,
};

/** @param {VocabularyFiles} files @returns {Vocabulary} */
export function loadVocabulary(files) {
  const kind = KINDS[files.rules.kind];
  if (!kind) throw new BundleError(`the bundle has a vocabulary of the kind '${files.rules.kind}', which is not known here`);
  return new kind(files);
}
