// Search for the translations of encoded sentences, all at once or step by step.

import { BeamSearch } from "./beam.mjs";
import { greedySteps } from "./greedy.mjs";

/** @typedef {import("../bundle/manifest.mjs").Generation} Generation */
/** @typedef {import("../engine/engine.mjs").DecoderState} DecoderState */
/** @typedef {import("./greedy.mjs").Hypothesis} Hypothesis */

/**
 * Return `num_return_sequences` hypotheses for each sentence, best first; all prefixes have the same length.
 * @param {DecoderState} state @param {number[][]} prefixes @param {Generation} options
 * @returns {Promise<Hypothesis[][]>}
 */
export async function search(state, prefixes, options) {
  if (options.num_beams > 1) {
    const beams = new BeamSearch(state, prefixes, options);
    for await (const _ of beams.steps());
    return beams.hypotheses;
  }
  /** @type {Hypothesis[]} */
  let found = [];
  for await (const so_far of greedySteps(state, prefixes, options)) found = so_far;
  return found.map(one => [one]);
}

/**
 * Yield the tokens of one sentence that no later step can change, and return its hypothesis.
 * @param {DecoderState} state @param {number[]} prefix @param {Generation} options
 * @returns {AsyncGenerator<number[], Hypothesis>}
 */
export async function* streamSearch(state, prefix, options) {
  if (options.num_beams === 1) {
    /** @type {Hypothesis[]} */
    let found = [];
    for await (found of greedySteps(state, [prefix], options)) yield found[0].tokens;
    return found[0];
  }
  const beams = new BeamSearch(state, [prefix], options);
  for await (const running of beams.steps()) {
    const rows = [...(running.get(0) ?? []), ...beams.finished[0].hypotheses.slice(0, 1)].map(one => one.tokens);
    if (running.size) yield commonPrefix(rows);
  }
  return beams.finished[0].hypotheses[0];
}

/** @param {number[][]} rows */
function commonPrefix(rows) {
  const end = rows[0].findIndex((token, index) => rows.some(row => row[index] !== token));
  return end < 0 ? rows[0] : rows[0].slice(0, end);
}
