// Read manifest.json: closed and versioned, see docs/bundle.md.

import { BundleError } from "../errors.mjs";
import { decodePiece } from "../tokenizer/utf8.mjs";

/** @typedef {{ pad: number, bos: number, eos: number, unk: number, source_unk: number | null }} SpecialTokens */
/**
 * @typedef {object} Tokenization
 * @property {string} source @property {string} target @property {string} kind
 * @property {string} source_codes @property {string} target_codes @property {string} split
 * @property {boolean} plain_spaces @property {object | null} moses @property {boolean} lowercase
 * @property {boolean} source_bos @property {boolean} source_eos @property {number[]} silent
 * @property {number} source_length @property {number} sentinels @property {string} source_prefix
 */
/**
 * @typedef {object} Languages
 * @property {string} source @property {string} target @property {Record<string, number>} codes
 * @property {"none" | "before" | "after"} source_tag @property {"none" | "first" | "start" | "source"} target_tag
 */
/**
 * @typedef {object} Generation options of the search, with Hugging Face's names
 * @property {number} decoder_start_token_id @property {number | number[]} eos_token_id @property {number} pad_token_id
 * @property {number} num_beams @property {number} num_return_sequences
 * @property {number | null} max_new_tokens @property {number | null} min_new_tokens
 * @property {number | null} max_length @property {number} min_length @property {number} length_penalty
 * @property {boolean | "never"} early_stopping @property {number} no_repeat_ngram_size
 * @property {number} repetition_penalty @property {number[][] | null} bad_words_ids
 * @property {number[] | null} suppress_tokens @property {number | null} forced_bos_token_id
 * @property {number | number[] | null} forced_eos_token_id @property {boolean} renormalize_logits
 * @property {boolean} do_sample @property {number} temperature @property {number} top_k @property {number} top_p
 * @property {number | null} seed
 */
/**
 * @typedef {object} Manifest
 * @property {number} format_version @property {string} family
 * @property {{ target_vocabulary: number, [key: string]: unknown } | null} architecture
 * @property {number} parameters @property {number} max_positions
 * @property {"sentences" | "none"} split @property {SpecialTokens} tokens @property {Tokenization} tokenizer
 * @property {Languages} languages @property {string} precision @property {object | null} quantization
 * @property {string} dialect @property {number} opset @property {Generation} generation
 * @property {{ license: string, attribution: string }} rights @property {Record<string, string>} tools
 * @property {Record<string, { sha256: string, size: number }>} files @property {object | null} parity
 */

export const MANIFEST = "manifest.json", ENCODER = "encoder.onnx", DECODER = "decoder.onnx", WEIGHTS = "weights.bin";
const FORMAT_VERSION = 1;
const READS_PARAGRAPHS = ["bart", "pegasus", "t5"]; // families whose models are trained on more than single sentences
const KEYS = {
  manifest:
    "format_version family architecture parameters max_positions split tokens tokenizer languages precision " +
    "quantization dialect opset generation rights tools files parity",
  tokens: "pad bos eos unk source_unk",
  tokenizer:
    "source target kind source_codes target_codes split plain_spaces moses lowercase source_bos source_eos silent " +
    "source_length sentinels source_prefix",
  languages: "source target codes source_tag target_tag",
  generation:
    "decoder_start_token_id eos_token_id pad_token_id num_beams num_return_sequences max_new_tokens min_new_tokens " +
    "max_length min_length length_penalty early_stopping no_repeat_ngram_size repetition_penalty bad_words_ids " +
    "suppress_tokens forced_bos_token_id forced_eos_token_id renormalize_logits do_sample temperature top_k top_p seed",
};
export const GENERATION_KEYS = KEYS.generation.split(" ");

/**
 * Parse and check the bytes of a manifest.
 * @param {Uint8Array} raw
 * @returns {Manifest}
 */
export function readManifest(raw) {
  let content;
  try {
    content = JSON.parse(decodePiece(raw));
  } catch (error) {
    throw new BundleError(`${MANIFEST} is not valid JSON (${error instanceof Error ? error.message : error})`);
  }
  const version = content?.format_version;
  if (version !== FORMAT_VERSION) {
    const advice = version > FORMAT_VERSION ? "; make the site again with a newer seq2edge" : "";
    throw new BundleError(
      `the bundle has format version ${JSON.stringify(version)}, but this page reads version ${FORMAT_VERSION}${advice}`);
  }
  if (content.split === undefined || content.split === "auto")
    content.split = READS_PARAGRAPHS.includes(content.family) ? "none" : "sentences";
  if (content.tokens && content.tokens.source_unk === undefined) content.tokens.source_unk = null;
  checkKeys("manifest", content);
  for (const name of /** @type {const} */ (["tokens", "tokenizer", "languages", "generation"])) checkKeys(name, content[name]);
  checkFiles(content);
  return content;
}

/** @param {keyof typeof KEYS} name @param {unknown} value */
function checkKeys(name, value) {
  if (typeof value !== "object" || !value) throw new BundleError(`${MANIFEST} is not valid: ${name} is not an object`);
  const expected = KEYS[name].split(" ");
  const missing = expected.find(key => !(key in value)), unknown = Object.keys(value).find(key => !expected.includes(key));
  if (missing) throw new BundleError(`${MANIFEST} is not valid: ${name} lacks the key '${missing}'`);
  if (unknown) throw new BundleError(`${MANIFEST} is not valid: ${name} has the unknown key '${unknown}'`);
}

/** @param {Manifest} manifest */
function checkFiles(manifest) {
  const missing = usedFiles(manifest).find(name => !manifest.files?.[name]);
  if (missing) throw new BundleError(`${MANIFEST} is not valid: files does not name ${missing}`);
  const invalid = Object.entries(manifest.files).find(
    ([name, entry]) => !/^[^/\\]+$/u.test(name) || name === ".." || name === "." || !/^[0-9a-f]{64}$/u.test(entry?.sha256));
  if (invalid) throw new BundleError(`${MANIFEST} is not valid: files has a bad entry '${invalid[0]}'`);
}

/** Return the files that translating needs; a scorer and a shortlist are left out. @param {Manifest} manifest */
export function usedFiles({ tokenizer }) {
  const vocabulary = [tokenizer.source, tokenizer.target, tokenizer.source_codes, tokenizer.target_codes];
  return [...new Set([ENCODER, DECODER, WEIGHTS, ...vocabulary.filter(name => name)])];
}
