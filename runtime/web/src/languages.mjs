// The language tags of a multilingual model.

import { UsageError } from "./errors.mjs";

/** @typedef {import("./bundle/manifest.mjs").Languages} Languages */
/** @typedef {{ before: number[], after: number[], first?: number, start?: number }} Tags */

const MAX_SHOWN = 8; // languages in an error

/**
 * Return the tags for the languages of a call; an empty name is the default.
 * @param {Languages} languages @param {string} source @param {string} target
 * @returns {Tags}
 */
export function resolveTags(languages, source, target) {
  const { codes, source_tag, target_tag } = languages;
  const sourceName = resolve(codes, source, "source_lang", languages.source, source_tag !== "none");
  const targetName = resolve(codes, target, "target_lang", languages.target, target_tag !== "none");
  const sourceIds = source_tag === "none" ? [] : [codes[sourceName]];
  const targetId = targetName && target_tag !== "none" ? codes[targetName] : undefined;
  const inSource = target_tag === "source" && targetId !== undefined ? [targetId] : [];
  return {
    before: [...inSource, ...(source_tag === "before" ? sourceIds : [])],
    after: source_tag === "after" ? sourceIds : [],
    first: target_tag === "first" ? targetId : undefined,
    start: target_tag === "start" ? targetId : undefined,
  };
}

/** @param {Record<string, number>} codes */
export function listSome(codes) {
  return Object.keys(codes).slice(0, MAX_SHOWN).join(", ");
}

/** @param {Record<string, number>} codes @param {string} name @param {string} option @param {string} normal @param {boolean} tagged */
function resolve(codes, name, option, normal, tagged) {
  if (!name || name === normal || (tagged && Object.hasOwn(codes, name))) return name || normal;
  if (!tagged) {
    const reason = normal ? `this model has only '${normal}'` : "this model has no tags for it";
    throw new UsageError(`${option} is '${name}', but ${reason}; leave it out`);
  }
  throw new UsageError(
    `${option} is '${name}', which this model does not know; it knows ${Object.keys(codes).length}, such as ${listSome(codes)}`);
}
