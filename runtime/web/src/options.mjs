// Resolve the options of a call against the defaults and limits of the bundle, as runtime/seq2edge/options.py does.

import { GENERATION_KEYS } from "./bundle/manifest.mjs";
import { UsageError } from "./errors.mjs";
import { listSome, resolveTags } from "./languages.mjs";

/** @typedef {import("./bundle/manifest.mjs").Manifest} Manifest */
/** @typedef {import("./bundle/manifest.mjs").Generation} Generation */
/**
 * @typedef {object} TextOptions
 * @property {"auto" | "sentences" | "none"} split @property {"split" | "error" | "truncate"} long
 * @property {string} source_lang @property {string} target_lang @property {string | null} source_prefix
 * @property {string} prefix what the translation has to begin with
 */
/** @typedef {Partial<Generation & TextOptions>} Options */
/** @typedef {{ generation: Generation, text: TextOptions, tags: import("./languages.mjs").Tags }} CallOptions */

/** @type {TextOptions} */
const TEXT_DEFAULTS = { split: "auto", long: "split", source_lang: "", target_lang: "", source_prefix: null, prefix: "" };
const CHOICES = { split: ["auto", "sentences", "none"], long: ["split", "error", "truncate"], early_stopping: [false, true, "never"] };
const AT_LEAST = /** @type {const} */ ({
  num_beams: 1, num_return_sequences: 1, max_new_tokens: 1, max_length: 1, min_new_tokens: 0, min_length: 0,
  no_repeat_ngram_size: 0, decoder_start_token_id: 0, pad_token_id: 0, forced_bos_token_id: 0,
});
const DEFAULT_NEW_TOKENS = 20; // as in transformers, if neither max_new_tokens nor max_length is set
const MAX_LENGTH_PENALTY = 100;

/**
 * Apply a call's options to the bundle's defaults, and check them.
 * @param {Options} changes @param {Manifest} manifest
 * @returns {CallOptions}
 */
export function resolveOptions(changes, manifest) {
  const unknown = Object.keys(changes).find(name => !(name in TEXT_DEFAULTS) && !GENERATION_KEYS.includes(name));
  if (unknown) throw new UsageError(`unknown option '${unknown}'`);
  const text = /** @type {TextOptions} */ ({ ...TEXT_DEFAULTS, ...only(changes, Object.keys(TEXT_DEFAULTS)) });
  const tags = resolveTags(manifest.languages, text.source_lang, text.target_lang);
  const generation = /** @type {Generation} */ ({
    ...manifest.generation,
    ...(tags.first === undefined ? {} : { forced_bos_token_id: tags.first }),
    ...(tags.start === undefined ? {} : { decoder_start_token_id: tags.start }),
    ...overrideLengths(only(changes, GENERATION_KEYS)),
  });
  checkValues({ ...text, ...generation });
  checkGeneration(generation, manifest);
  return { generation, text: { ...text, split: text.split === "auto" ? manifest.split : text.split }, tags };
}

/** @param {number | number[] | null} ids */
export const asIds = ids => (ids === null ? [] : [ids].flat());

/** Return the length at which a sequence is cut, including the prefix. @param {Generation} options @param {number} prefixLength */
export function longest(options, prefixLength) {
  if (options.max_new_tokens !== null) return prefixLength + options.max_new_tokens;
  return options.max_length ?? prefixLength + DEFAULT_NEW_TOKENS;
}

/** Return the minimum length of a sequence, including the prefix. @param {Generation} options @param {number} prefixLength */
export function shortest(options, prefixLength) {
  return options.min_new_tokens === null ? options.min_length : prefixLength + options.min_new_tokens;
}

/**
 * Return the same options for a model that generates at most `length` tokens, including the prefix.
 * @param {Generation} options @param {number} length @param {number} prefixLength
 * @returns {Generation}
 */
export function within(options, length, prefixLength) {
  const max_length = Math.min(length, longest(options, prefixLength));
  const min_length = Math.min(max_length, shortest(options, prefixLength));
  return { ...options, max_new_tokens: null, max_length, min_new_tokens: null, min_length };
}

/** @param {Record<string, any>} changes @param {string[]} names */
function only(changes, names) {
  return Object.fromEntries(Object.entries(changes).filter(([name, value]) => names.includes(name) && value !== undefined));
}

/** Let a length given by the call override the bundle's number of new tokens, which would take precedence. */
function overrideLengths(/** @type {Record<string, any>} */ changes) {
  for (const [length, newTokens] of [["max_length", "max_new_tokens"], ["min_length", "min_new_tokens"]]) {
    if (changes[length] === undefined || changes[length] === null) continue;
    if (changes[newTokens] !== undefined && changes[newTokens] !== null)
      throw new UsageError(`${length} and ${newTokens} were both given; give only one of them`);
    changes[newTokens] = null;
  }
  return changes;
}

/** @param {Record<string, any>} options */
function checkValues(options) {
  for (const [name, least] of Object.entries(AT_LEAST)) {
    const value = options[name];
    if (value === null && !["num_beams", "num_return_sequences"].includes(name)) continue;
    if (!Number.isInteger(value)) throw new UsageError(`${name} is ${JSON.stringify(value)}, but must be an integer`);
    if (value < least) throw new UsageError(`${name} is ${value}, but must be at least ${least}`);
  }
  for (const [name, values] of Object.entries(CHOICES)) {
    if (!values.includes(options[name]))
      throw new UsageError(`${name} is ${JSON.stringify(options[name])}, but must be ${values.map(v => JSON.stringify(v)).join(" or ")}`);
  }
  if (!(options.repetition_penalty > 0)) throw new UsageError(`repetition_penalty is ${options.repetition_penalty}, but must be above 0`);
  if (!(Math.abs(options.length_penalty) <= MAX_LENGTH_PENALTY))
    throw new UsageError(`length_penalty is ${options.length_penalty}, but must be between -${MAX_LENGTH_PENALTY} and ${MAX_LENGTH_PENALTY}`);
}

/** @param {Generation} options @param {Manifest} manifest */
function checkGeneration(options, manifest) {
  const { num_beams: beams, num_return_sequences: count } = options, { languages, architecture, max_positions } = manifest;
  if (options.do_sample) throw new UsageError("do_sample is not supported in the browser: use greedy or beam search");
  if (count > beams)
    throw new UsageError(`num_return_sequences is ${count}, but must be at most num_beams, which is ${beams}`);
  const length = longest(options, 1) - 1; // without the start token
  if (length < 1 || length > max_positions)
    throw new UsageError(`the maximum output length is ${length} tokens, but the model generates 1 to ${max_positions}`);
  const size = architecture?.target_vocabulary ?? Infinity;
  const ids = [options.decoder_start_token_id, ...asIds(options.eos_token_id), ...asIds(options.forced_bos_token_id),
    ...asIds(options.forced_eos_token_id), ...(options.suppress_tokens ?? []), ...(options.bad_words_ids ?? []).flat()];
  if (beams > size || ids.some(id => id >= size || id < 0))
    throw new UsageError(`an option exceeds the vocabulary of the model, which has ${size} tokens`);
  const named = { first: options.forced_bos_token_id, start: options.decoder_start_token_id };
  if ((languages.target_tag === "first" || languages.target_tag === "start")
    && !Object.values(languages.codes).includes(/** @type {number} */ (named[languages.target_tag])))
    throw new UsageError(
      `this model translates into ${Object.keys(languages.codes).length} languages: choose one with target_lang (${listSome(languages.codes)})`);
}
