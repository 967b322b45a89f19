// Beam search: keep the best few partial outputs of each sentence at each step, as Hugging Face does, in float32.

import { UsageError } from "../errors.mjs";
import { asIds, longest } from "../options.mjs";
import { NOTHING_ALLOWED } from "./greedy.mjs";
import { logNormalizer, logProbability, logSoftmax, topK } from "./log_softmax.mjs";
import { LogitsProcessors } from "./processors.mjs";

/** @typedef {import("../bundle/manifest.mjs").Generation} Generation */
/** @typedef {import("../engine/engine.mjs").DecoderState} DecoderState */
/** @typedef {import("../engine/engine.mjs").StepOutput} StepOutput */
/** @typedef {import("./greedy.mjs").Hypothesis} Hypothesis */
/** @typedef {{ tokens: number[], tokenScores: number[], score: number, parent: number }} Beam `parent`: the beam that it continues */
/** @typedef {{ parent: number, token: number, tokenScore: number, score: number }} Candidate a beam continued by one token */

const { fround } = Math;
const UNREACHED = -1e9; // the score of a beam that does not exist; any real one is above it
const STEEPEST = 60; // logarithm of the largest normalizer

/** Return length ** penalty, by which a beam's score is divided, limited to what float32 can hold. */
export function lengthNormalizer(/** @type {number} */ length, /** @type {number} */ penalty) {
  const exponent = penalty * Math.log(length);
  return Math.abs(exponent) <= STEEPEST ? length ** penalty : Math.exp(Math.sign(exponent) * STEEPEST);
}

/** The best finished hypotheses of one sentence, best first; of equal ones, the earlier first. */
class Finished {
  /** @type {Hypothesis[]} */
  hypotheses = [];

  /** @param {number} size */
  constructor(size) {
    this.size = size;
  }

  /** @param {Hypothesis} hypothesis */
  add(hypothesis) {
    this.hypotheses = [...this.hypotheses, hypothesis].sort((one, other) => other.score - one.score).slice(0, this.size);
  }

  /** The score to beat; until there are enough hypotheses, any score does. */
  get worst() {
    return this.hypotheses.length === this.size ? this.hypotheses[this.size - 1].score : UNREACHED;
  }
}

/** A beam search over one batch. */
export class BeamSearch {
  /** @param {DecoderState} state @param {number[][]} prefixes @param {Generation} options */
  constructor(state, prefixes, options) {
    this.state = state;
    this.prefixes = prefixes;
    this.options = options;
    this.eos = asIds(options.eos_token_id);
    this.count = options.num_beams * Math.max(2, 1 + this.eos.length); // so many go on even if every beam may end
    this.limit = longest(options, prefixes[0].length) - prefixes[0].length;
    this.processors = new LogitsProcessors(options, prefixes[0].length);
    this.finished = prefixes.map(() => new Finished(options.num_beams));
  }

  /** Return the best hypotheses of each sentence. */
  get hypotheses() {
    return this.finished.map(one => one.hypotheses.slice(0, this.options.num_return_sequences));
  }

  /** Run the search; yield the running beams of each unfinished sentence after each step. */
  async *steps() {
    const { num_beams } = this.options;
    const start = Array.from({ length: num_beams }, (_, parent) => (
      { tokens: [], tokenScores: [], score: parent ? UNREACHED : 0, parent }));
    /** @type {Map<number, Beam[]>} */
    let beams = new Map(this.prefixes.map((_, sentence) => [sentence, start]));
    let output = await this.state.step(this.prefixes.map(prefix => [prefix]), this.prefixes.map((_, row) => [row]));
    for (let made = 1; made <= this.limit; made++) {
      /** @type {Map<number, Beam[]>} */
      const going = new Map();
      const rows = [], rowsBefore = made === 1 ? 1 : num_beams;
      for (const [index, [sentence, before]] of [...beams].entries()) {
        const candidates = this.#candidates(output, before, sentence, index * rowsBefore, rowsBefore);
        const running = this.#advance(before, candidates, this.finished[sentence], made);
        if (!running.length) continue;
        going.set(sentence, running);
        rows.push(running.map(beam => index * rowsBefore + (rowsBefore > 1 ? beam.parent : 0)));
      }
      yield going;
      if (!going.size) return;
      beams = going;
      output = await this.state.step([...beams.values()].map(running => running.map(beam => beam.tokens.slice(-1))), rows);
    }
  }

  /**
   * Return the best continuations of a sentence, best first.
   * @param {StepOutput} output @param {Beam[]} beams @param {number} sentence @param {number} firstRow @param {number} rows
   * @returns {Candidate[]}
   */
  #candidates(output, beams, sentence, firstRow, rows) {
    const best = beams.slice(0, rows).map((beam, row) => this.#bestTokens(output, firstRow + row, beam, sentence));
    const all = beams.flatMap((beam, parent) => best[rows > 1 ? parent : 0].map(
      ({ token, tokenScore }) => ({ parent, token, tokenScore, score: fround(tokenScore + beam.score) })));
    const candidates = all.sort((one, other) => other.score - one.score || 0).slice(0, this.count); // stable
    if (candidates[0].score === -Infinity && !this.finished[sentence].hypotheses.length)
      throw new UsageError(NOTHING_ALLOWED);
    return candidates;
  }

  /** @param {StepOutput} output @param {number} row @param {Beam} beam @param {number} sentence */
  #bestTokens(output, row, beam, sentence) {
    const logits = output.row(row), sequence = [...this.prefixes[sentence], ...beam.tokens];
    if (!this.processors.needed(sequence.length)) {
      const normalizer = logNormalizer(logits, output.logTotal(row));
      return topK(logits, this.count).map(token => ({ token, tokenScore: logProbability(logits[token], normalizer) }));
    }
    const scores = logSoftmax(logits, output.logTotal(row));
    this.processors.apply(sequence, scores);
    return topK(scores, this.count).map(token => ({ token, tokenScore: scores[token] }));
  }

  /**
   * Store what has ended; return the beams that go on, or none if the sentence is done.
   * @param {Beam[]} beams @param {Candidate[]} candidates @param {Finished} finished @param {number} made
   */
  #advance(beams, candidates, finished, made) {
    const { num_beams, num_return_sequences } = this.options;
    const ended = candidates.map(one => made === this.limit || this.eos.includes(one.token));
    const normalizer = fround(lengthNormalizer(made, this.options.length_penalty));
    candidates.slice(0, num_beams).forEach((one, column) => {
      const score = fround(one.score / normalizer);
      if (ended[column] && score > finished.worst) finished.add(this.#hypothesis(extend(beams, one, one.score), score));
    });
    const scores = candidates.map((one, column) => (ended[column] ? fround(one.score + UNREACHED) : one.score));
    const order = [...candidates.keys()].sort((one, other) => scores[other] - scores[one] || 0); // stable
    const running = order.slice(0, num_beams).map(column => extend(beams, candidates[column], scores[column]));
    if (ended.includes(false) && !this.#isDone(running[0].score, finished, made)) return running;
    for (const beam of running.slice(0, Math.max(0, num_return_sequences - finished.hypotheses.length)))
      finished.add(this.#hypothesis(beam, beam.score)); // so much is forbidden that too few could end
    return [];
  }

  /** Whether there are enough hypotheses, or no beam can get good enough. */
  #isDone(/** @type {number} */ best, /** @type {Finished} */ finished, /** @type {number} */ made) {
    const { early_stopping, length_penalty } = this.options;
    if (early_stopping === true && finished.worst > UNREACHED) return true;
    const length = early_stopping === "never" && length_penalty > 0 ? this.limit : made;
    return fround(best / fround(lengthNormalizer(length, length_penalty))) <= finished.worst;
  }

  /** @param {Beam} beam @param {number} score @returns {Hypothesis} */
  #hypothesis({ tokens, tokenScores, score: beamScore }, score) {
    const ended = this.eos.includes(tokens[tokens.length - 1]);
    return { tokens, score, tokenScores, ended, placeholder: beamScore < UNREACHED / 2 };
  }
}

/** @param {Beam[]} beams @param {Candidate} candidate @param {number} score @returns {Beam} */
function extend(beams, { parent, token, tokenScore }, score) {
  const { tokens, tokenScores } = beams[parent];
  return { tokens: [...tokens, token], tokenScores: [...tokenScores, tokenScore], score, parent };
}
