// Turn logits into log-probabilities in float32, computing no more of them than needed.

import { BundleError } from "../errors.mjs";

const { fround } = Math;

/** @typedef {{ peak: number, logTotal: number }} Normalizer the largest logit, and the log of the sum of exp(logit - largest) */

/** @param {Float32Array} logits @param {number} [known] the second part, if the decoder computed it @returns {Normalizer} */
export function logNormalizer(logits, known) {
  const peak = logits[argmax(logits)];
  let total = 0;
  if (known === undefined) // an iterator takes several times as long as an index
    for (let token = 0; token < logits.length; token++) total += Math.exp(fround(logits[token] - peak));
  const logTotal = known ?? fround(Math.log(total));
  if (!(logTotal < Infinity))
    throw new BundleError("the decoder returned scores that are not numbers: try a higher precision");
  return { peak, logTotal };
}

/** Subtract one after the other: their sum would lose digits. @param {number} logit @param {Normalizer} normalizer */
export const logProbability = (logit, { peak, logTotal }) => fround(fround(logit - peak) - logTotal);

/** @param {Float32Array} logits @param {number} [known] */
export function logSoftmax(logits, known) {
  const normalizer = logNormalizer(logits, known);
  return logits.map(logit => logProbability(logit, normalizer));
}

/** Return the column of the largest score, the first of equal ones. @param {Float32Array} scores */
export function argmax(scores) {
  let best = 0;
  for (let column = 1; column < scores.length; column++) if (scores[column] > scores[best]) best = column;
  return best;
}

/**
 * Return the columns of the k largest scores, largest first; ties in order of the column.
 * @param {Float32Array} scores @param {number} k
 */
export function topK(scores, k) {
  /** @type {number[]} */
  const best = [];
  for (let column = 0; column < scores.length; column++) {
    const score = scores[column];
    if (best.length === k && !(score > scores[best[k - 1]])) continue;
    let at = best.length === k ? k - 1 : best.length;
    for (; at > 0 && score > scores[best[at - 1]]; at--) best[at] = best[at - 1];
    best[at] = column;
  }
  return best;
}
