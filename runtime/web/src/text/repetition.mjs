// Detect outputs that are stuck in a loop, a common failure of translation models.

const MAX_PERIOD = 20; // tokens
const MIN_TIMES = 4;
const MIN_RUN = 8; // tokens; a word repeated four times is still ordinary language

/**
 * Return whether tokens are repeated four times or more in a row, eight tokens in all, and more than in the source.
 * @param {number[]} tokens @param {number[]} source
 */
export function repeats(tokens, source) {
  const most = Math.max(0, ...repetitions(tokens).filter(one => one.times >= MIN_TIMES && one.run >= MIN_RUN).map(one => one.times));
  return most > 0 && most > Math.max(0, ...repetitions(source).map(one => one.times));
}

/** Return for each period how often it occurs in its longest run, and the length of this run in tokens. */
function repetitions(/** @type {number[]} */ tokens) {
  const periods = Math.min(MAX_PERIOD, Math.floor(tokens.length / MIN_TIMES));
  return Array.from({ length: periods }, (_, index) => {
    const period = index + 1;
    let longest = 0;
    for (let at = 0, same = 0; at + period < tokens.length; at++) {
      same = tokens[at] === tokens[at + period] ? same + 1 : 0;
      longest = Math.max(longest, same);
    }
    const run = longest + period;
    return { times: Math.floor(run / period), run };
  });
}
