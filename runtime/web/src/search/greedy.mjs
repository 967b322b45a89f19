// Greedy search: take the most likely token at each step.

import { UsageError } from "../errors.mjs";
import { asIds, longest } from "../options.mjs";
import { argmax, logNormalizer, logProbability } from "./log_softmax.mjs";
import { LogitsProcessors } from "./processors.mjs";

/** @typedef {import("../bundle/manifest.mjs").Generation} Generation */
/** @typedef {import("../engine/engine.mjs").DecoderState} DecoderState */
/**
 * @typedef {object} Hypothesis new tokens with their scores; the prefix is not part of it
 * @property {number[]} tokens the end token included, if it came
 * @property {number} score
 * @property {number[]} tokenScores
 * @property {boolean} ended by an end token, not by the length limit
 * @property {boolean} placeholder stands for a beam that does not exist
 */

export const NOTHING_ALLOWED = "the options forbid every token, so none can be chosen: allow at least one";

/**
 * Yield the hypotheses so far after each step; a sentence leaves the batch when it has ended.
 * @param {DecoderState} state @param {number[][]} prefixes @param {Generation} options
 * @returns {AsyncGenerator<Hypothesis[]>}
 */
export async function* greedySteps(state, prefixes, options) {
  const processors = new LogitsProcessors(options, prefixes[0].length), eos = asIds(options.eos_token_id);
  /** @type {Hypothesis[]} */
  const found = prefixes.map(() => ({ tokens: [], score: 0, tokenScores: [], ended: false, placeholder: false }));
  let sentences = prefixes.map((_, index) => index), rows = sentences; // those that have not ended
  let tokens = prefixes;
  for (let length = prefixes[0].length; length < longest(options, prefixes[0].length) && sentences.length; length++) {
    const output = await state.step(tokens.map(row => [row]), rows.map(row => [row]));
    sentences.forEach((sentence, row) => {
      const one = found[sentence], sequence = [...prefixes[sentence], ...one.tokens];
      const { token, score } = choose(output.row(row), output.logTotal(row), processors, sequence);
      one.tokens.push(token);
      one.tokenScores.push(score);
      one.score += score;
      one.ended = eos.includes(token);
    });
    yield found;
    rows = [...sentences.keys()].filter(row => !found[sentences[row]].ended);
    sentences = rows.map(row => sentences[row]);
    tokens = sentences.map(sentence => found[sentence].tokens.slice(-1));
  }
}

/**
 * Return the token chosen after the processors, and its log-probability before them.
 * @param {Float32Array} logits @param {number | undefined} known @param {LogitsProcessors} processors @param {number[]} sequence
 */
function choose(logits, known, processors, sequence) {
  const normalizer = logNormalizer(logits, known);
  if (!processors.needed(sequence.length)) {
    const token = argmax(logits);
    return { token, score: logProbability(logits[token], normalizer) };
  }
  const scores = logits.slice();
  processors.apply(sequence, scores);
  const token = argmax(scores);
  if (scores[token] === -Infinity) throw new UsageError(NOTHING_ALLOWED);
  return { token, score: logProbability(logits[token], normalizer) };
}
