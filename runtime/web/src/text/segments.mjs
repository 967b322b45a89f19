// Split texts into segments that a model can process, and join the translations, as runtime/seq2edge/text/segments.py.

import { DataError } from "../errors.mjs";
import { CLOSING, QUOTES, UNSPACED, splitSentences } from "./sentence_splitter.mjs";
import { SPACE, countCharacters, isSpace, skipCharacters, strip } from "./unicode.mjs";

/** @typedef {import("../tokenizer/tokenizer.mjs").Tokenizer} Tokenizer */
/**
 * @typedef {object} Segment a text, or a part of it that the model translates at once
 * @property {number} textIndex of the text in the batch
 * @property {number} sentence index of the sentence in its text, if the text is split into sentences
 * @property {number} index of the segment in its text
 * @property {string} space white space of the text before the segment
 * @property {string} text
 * @property {number[]} ids
 * @property {number} unknown number of characters that the vocabulary lacks
 * @property {boolean} truncated
 */
/** @typedef {{ textIndex: number, sentence: number, space: string, tag: string, text: string, isSentence: boolean }} Piece */

const FIRST_LENGTH = 1024; // characters that are tried first, longer than most sentences
const MAX_CHARACTER_LENGTH = 32; // code points; no script needs more, only abuse of combining marks has it

const CLAUSES = new RegExp(
  `[、，；：､၊፣-፦།]+[${CLOSING}]*|[,;:–—،؛՝·\\u037e]+[${CLOSING}]*(?=[${SPACE}])`, "gu");
const VISIBLE = new RegExp(`[^${SPACE}]`, "gu");
const SPACES = new RegExp(`[${SPACE}]+|\\u200b`, "gu");
const STARTS_UNSPACED = new RegExp(`^[${UNSPACED}]`, "u");
// Part of the character before: marks, joiner, skin tones, tags, Thai and Lao am, kana voicing, Hangul jamo.
const EXTENDS = /^[\p{M}\u200d\u{1f3fb}-\u{1f3ff}\u{e0020}-\u{e007f}\u0e33\u0eb3\uff9e\uff9f\u1160-\u11ff]/u;
// Part of the character after: joiner, Thai and Lao vowels that are written first, and the signs (combining class 9)
// that join two consonants of an Indic script.
const PREPENDS = new RegExp(
  "^[\\u200d\\u0e40-\\u0e44\\u0ec0-\\u0ec4" +
  "\\u094d\\u09cd\\u0a4d\\u0acd\\u0b4d\\u0bcd\\u0c4d\\u0ccd\\u0d3b\\u0d3c\\u0d4d\\u0dca\\u0e3a\\u0eba\\u0f84" +
  "\\u1039\\u103a\\u1714\\u1715\\u1734\\u17d2\\u1a60\\u1b44\\u1baa\\u1bab\\u1bf2\\u1bf3\\u2d7f\\ua806\\ua82c\\ua8c4" +
  "\\ua953\\ua9c0\\uaaf6\\uabed\\u{10a3f}\\u{11046}\\u{11070}\\u{1107f}\\u{110b9}\\u{11133}\\u{11134}\\u{111c0}" +
  "\\u{11235}\\u{112ea}\\u{1134d}\\u{11442}\\u{114c2}\\u{115bf}\\u{1163f}\\u{116b6}\\u{1172b}\\u{11839}\\u{1193d}" +
  "\\u{1193e}\\u{119e0}\\u{11a34}\\u{11a47}\\u{11a99}\\u{11c3f}\\u{11d44}\\u{11d45}\\u{11d97}]", "u");
const FLAG = /^[\u{1f1e6}-\u{1f1ff}]/u;
const NEUTRAL = QUOTES + "…—–·()[]";

/**
 * Return the segments of all texts in order; a text without visible characters has none.
 * @param {string[]} texts
 * @param {Tokenizer} tokenizer
 * @param {{ maxTokens: number, long: string, split: string }} options
 * @returns {Segment[]}
 */
export function makeSegments(texts, tokenizer, { maxTokens, long, split }) {
  const pieces = texts.flatMap((text, index) => piecesOf(index, text, tokenizer, split));
  const segments = pieces.flatMap(piece => {
    const ids = tokenizer.encodeVisible(piece.tag + piece.text);
    if (ids.length > maxTokens && long === "split") return splitPiece(piece, tokenizer, maxTokens);
    if (ids.length > maxTokens && long === "error") {
      const name = piece.isSentence ? "a sentence of text" : "text";
      throw new DataError(
        `${name} ${piece.textIndex + 1} has ${ids.length} tokens, but the model takes at most ${maxTokens}; ` +
        'split it (long: "split")');
    }
    return [makeSegment(piece, piece.text, piece.space, ids, tokenizer, maxTokens)];
  });
  return numbered(segments);
}

/** @param {number} textIndex @param {string} text @param {Tokenizer} tokenizer @param {string} split @returns {Piece[]} */
function piecesOf(textIndex, text, tokenizer, split) {
  const whole = [{ textIndex, sentence: 0, space: "", tag: "", text, isSentence: false }];
  if (split !== "sentences") return whole;
  const [tag, rest] = tokenizer.splitTag(text);
  const sentences = splitSentences(rest);
  if (sentences.length < 2) return whole;
  const spaces = spacesBefore(rest, sentences);
  return sentences.map((sentence, number) => (
    { textIndex, sentence: number, space: spaces[number], tag, text: sentence, isSentence: true }));
}

/** @param {Piece} piece @param {Tokenizer} tokenizer @param {number} maxTokens */
function splitPiece(piece, tokenizer, maxTokens) {
  const [tag, rest] = piece.tag ? [piece.tag, piece.text] : tokenizer.splitTag(piece.text);
  const parts = splitToMaxTokens(rest, part => tokenizer.encode(tag + part).length, maxTokens);
  const spaces = spacesBefore(rest, parts, piece.space);
  return parts.map((part, index) => makeSegment(
    { ...piece, tag }, part, spaces[index], tokenizer.encodeVisible(tag + part), tokenizer, maxTokens));
}

/**
 * @param {Piece} piece @param {string} part @param {string} space @param {number[]} ids @param {Tokenizer} tokenizer
 * @param {number} maxTokens
 * @returns {Segment}
 */
function makeSegment(piece, part, space, ids, tokenizer, maxTokens) {
  const text = piece.tag + part, truncated = ids.length > maxTokens;
  const kept = truncated ? tokenizer.frame.truncate(ids, maxTokens) : ids;
  const unknown = kept.length ? tokenizer.unknownCharacters(text, kept) : 0;
  return { textIndex: piece.textIndex, sentence: piece.sentence, index: 0, space, text, ids: kept, unknown, truncated };
}

/** Number the segments of each text, without those that have no visible characters; white space is kept. */
function numbered(/** @type {Segment[]} */ segments) {
  /** @type {Segment[]} */
  const found = [];
  let textIndex = -1, space = "", index = 0;
  for (const segment of segments) {
    if (segment.textIndex !== textIndex) [textIndex, space, index] = [segment.textIndex, "", 0];
    space += segment.space;
    if (!segment.ids.length) continue;
    found.push({ ...segment, index: index++, space });
    space = "";
  }
  return found;
}

/** Return the white space before each part of a text, which is all that is not in a part; `first` is given. */
function spacesBefore(/** @type {string} */ text, /** @type {string[]} */ parts, first = "") {
  let end = 0;
  return parts.map(part => {
    const start = text.indexOf(part, end), space = end ? text.slice(end, start) : first;
    end = start + part.length;
    return space;
  });
}

/**
 * Split a text into sentences, and sentences with more than `maxTokens` tokens into parts.
 * @param {string} text @param {(part: string) => number} countTokens @param {number} maxTokens
 */
export function splitToMaxTokens(text, countTokens, maxTokens) {
  /** @param {string} part */
  const isShort = part => countTokens(part) <= maxTokens;
  return splitSentences(text).flatMap(sentence => new SentenceSplit(sentence, isShort).parts());
}

/** Split a sentence as late as possible: after a clause, else at a space, else between two characters. */
class SentenceSplit {
  /** @type {number[][] | undefined} */
  #splitPoints;
  #length = FIRST_LENGTH; // characters to try first

  /** @param {string} text @param {(part: string) => boolean} isShort counts tokens, which is expensive */
  constructor(text, isShort) {
    this.text = text;
    this.isShort = isShort;
  }

  parts() {
    const parts = [];
    for (let start = 0; start < this.text.length;) {
      const end = this.#end(start);
      parts.push(this.#part(start, end));
      this.#length = 2 * countCharacters(this.text.slice(start, end)); // the next part will have a similar length
      VISIBLE.lastIndex = end;
      start = VISIBLE.exec(this.text)?.index ?? this.text.length;
    }
    return parts;
  }

  /** Where the sentence may be split: after clauses, at spaces, between characters. */
  get splitPoints() {
    if (!this.#splitPoints) {
      const characters = characterEnds(this.text), valid = new Set(characters);
      const [clauses, spaces] = [CLAUSES, SPACES].map(pattern =>
        [...this.text.matchAll(pattern)].map(match => match.index + match[0].length).filter(end => valid.has(end)));
      this.#splitPoints = [clauses, spaces, characters];
    }
    return this.#splitPoints;
  }

  /** Return the end of the part that begins at `start`. @param {number} start */
  #end(start) {
    const limit = this.#tooLongEnd(start);
    if (limit === null) return this.text.length;
    const [clauses, spaces, characters] = this.splitPoints.map(points => points.filter(p => p > start && p < limit));
    if (!characters.length) characters.push(this.splitPoints[2].find(point => point > start) ?? this.text.length);
    for (const ends of [clauses, spaces, characters]) {
      const end = this.#lastShortEnd(start, ends);
      if (end !== null) return end;
    }
    throw new DataError(
      `the character '${this.#part(start, characters[0])}' has more tokens than the model takes; remove it`);
  }

  /** Return an end that makes the part too long, but not by much; null if the whole rest is short enough. */
  #tooLongEnd(/** @type {number} */ start) {
    for (let length = this.#length; ; length *= 2) {
      const end = skipCharacters(this.text, start, length);
      if (!this.isShort(this.#part(start, end))) return this.#limit(start, length, end);
      if (end >= this.text.length) return null;
    }
  }

  /** Return the limit in UTF-16 units; it may lie behind the text, where the text's own end is a valid split. */
  #limit(/** @type {number} */ start, /** @type {number} */ length, /** @type {number} */ end) {
    return end < this.text.length ? end : end + length - countCharacters(this.text.slice(start, end));
  }

  /** Return the last end that makes the part short enough, by bisection; null if not even the first does. */
  #lastShortEnd(/** @type {number} */ start, /** @type {number[]} */ ends) {
    let good = -1, bad = ends.length;
    while (bad - good > 1) {
      const middle = (good + bad) >> 1;
      if (this.isShort(this.#part(start, ends[middle]))) good = middle;
      else bad = middle;
    }
    return good < 0 ? null : ends[good];
  }

  /** @param {number} start @param {number} end */
  #part(start, end) {
    return strip(this.text.slice(start, end));
  }
}

/** Return where the characters end, as a reader sees them: letters with their marks, emoji, flags, syllables. */
export function characterEnds(/** @type {string} */ text) {
  /** @type {number[]} */
  const ends = [];
  let before = "", position = 0, length = 0, flags = 0;
  for (const after of text) {
    if (before) {
      flags = FLAG.test(before) ? flags + 1 : 0;
      const isEnd = !(EXTENDS.test(after) || PREPENDS.test(before) || (flags % 2 && FLAG.test(after)));
      if (isEnd || length >= MAX_CHARACTER_LENGTH) {
        ends.push(position);
        length = 0;
      }
    }
    [before, position, length] = [after, position + after.length, length + 1];
  }
  return [...ends, text.length];
}

/**
 * Join texts with the white space that was before each of them. Between two characters of scripts that are written
 * without spaces a single space is left out, and between others there is always one.
 * @param {string[]} texts @param {string[]} spaces
 */
export function joinTexts(texts, spaces) {
  let result = "", pending = "", last = ""; // white space, and the last character that is not neutral
  texts.forEach((one, index) => {
    pending = addSpace(pending, spaces[index]);
    const text = strip(one);
    if (!text) return;
    if (result) {
      const unspaced = STARTS_UNSPACED.test(last) && STARTS_UNSPACED.test(withoutNeutralStart(text));
      result += pending && pending !== " " ? pending : unspaced ? "" : " ";
    }
    result += text;
    pending = "";
    last = [...stablePrefix(text)].at(-1) ?? last;
  });
  return result;
}

/** Return the white space around a missing text; plain spaces do not add up. */
function addSpace(/** @type {string} */ before, /** @type {string} */ space) {
  if (/[^ ]/u.test(before + space)) return before + space;
  return space.length > before.length ? space : before;
}

/** Return the part of a joined text that stays when its last part grows: the space before a quote may still go. */
export function stablePrefix(/** @type {string} */ text) {
  let end = text.length;
  while (end && (isSpace(text[end - 1]) || NEUTRAL.includes(text[end - 1]))) end--;
  return text.slice(0, end);
}

function withoutNeutralStart(/** @type {string} */ text) {
  let start = 0;
  while (start < text.length && NEUTRAL.includes(text[start])) start++;
  return text.slice(start);
}
