// The character classes of Python's str and re, which differ from JavaScript's, as content of classes with the flag u.

/** `\s`, `str.isspace`, `str.strip`, `str.split`. */
export const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
/** `\w` */
export const WORD = "\\p{L}\\p{N}_";
/** `\d` */
export const DIGIT = "\\p{Nd}";
/** `[^\W\d_]` */
export const LETTER = "\\p{L}\\p{Nl}\\p{No}";

const SPACES = new RegExp(`[${SPACE}]+`, "u"), ALL_SPACES = new RegExp(`[${SPACE}]+`, "gu");
const IS_SPACE = new RegExp(`^[${SPACE}]$`, "u");
const LINE_END = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/u;
const ALPHANUMERIC = /[\p{L}\p{N}]/u;
// Digits that are no decimal digits, such as superscripts.
const DIGITS = new RegExp(
  "^[\\p{Nd}\\u{b2}-\\u{b3}\\u{b9}\\u{1369}-\\u{1371}\\u{19da}\\u{2070}\\u{2074}-\\u{2079}\\u{2080}-\\u{2089}" +
  "\\u{2460}-\\u{2468}\\u{2474}-\\u{247c}\\u{2488}-\\u{2490}\\u{24ea}\\u{24f5}-\\u{24fd}\\u{24ff}\\u{2776}-\\u{277e}" +
  "\\u{2780}-\\u{2788}\\u{278a}-\\u{2792}\\u{10a40}-\\u{10a43}\\u{10e60}-\\u{10e68}\\u{11052}-\\u{1105a}" +
  "\\u{1f100}-\\u{1f10a}]+$", "u");
const CAPITAL = /[\p{Uppercase}\p{Lt}]/u, LOWERCASE = /\p{Lowercase}/u;

/** @param {string} text */
export const isSpace = text => IS_SPACE.test(text);
/** @param {string} text */
export const isDigit = text => DIGITS.test(text);
/** Whether it has lowercase letters and no capitals. @param {string} text */
export const isLower = text => LOWERCASE.test(text) && !CAPITAL.test(text);
/** @param {string} character */
export const isUpper = character => /^\p{Uppercase}$/u.test(character);
/** Whether any character is a letter or a number. @param {string} text */
export const hasAlphanumeric = text => ALPHANUMERIC.test(text);

/** @param {string} text */
export function strip(text) {
  let start = 0, end = text.length;
  while (start < end && isSpace(text[start])) start++;
  while (end > start && isSpace(text[end - 1])) end--;
  return text.slice(start, end);
}

/** Split at white space, without empty words. @param {string} text */
export const splitSpaces = text => text.split(SPACES).filter(word => word);

/** Replace every run of white space by a space. @param {string} text */
export const plainSpaces = text => text.replace(ALL_SPACES, " ");

/** @param {string} text */
export function splitLines(text) {
  const lines = text.split(LINE_END);
  if (!lines[lines.length - 1]) lines.pop();
  return lines;
}

/** The number of code points. @param {string} text */
export function countCharacters(text) {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/**
 * Return the end of the part of a text that begins at `start` and has so many code points.
 * @param {string} text @param {number} start @param {number} count
 */
export function skipCharacters(text, start, count) {
  let at = start;
  for (; count > 0 && at < text.length; count--) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return at;
}

/**
 * Return the start of the part of a text that ends at `end` and has so many code points, but not before `least`.
 * @param {string} text @param {number} end @param {number} count @param {number} least
 */
export function skipBack(text, end, count, least) {
  let at = end;
  for (; count > 0 && at > least; count--) at -= at > 1 && (text.codePointAt(at - 2) ?? 0) > 0xffff ? 2 : 1;
  return at;
}
