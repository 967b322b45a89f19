// Read a SentencePiece model file as it is, normalize text with its tables, and split it: unigram, BPE, words, characters.
//
// It follows the C++ library operation by operation, in bytes of UTF-8 and with its precision (float or double), because
// ties and roundings decide between segmentations.

import { DataError } from "../errors.mjs";
import { fieldsOf } from "../protobuf.mjs";
import { decodePiece, encodeUtf8, replaceInvalid } from "./utf8.mjs";

export const SPACE = "▁";
const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6; // types of pieces
const UNIGRAM = 1, BPE = 2, WORD = 3, CHAR = 4; // types of models
const UNKNOWN_PENALTY = 10, USER_BONUS = 0.1; // the bonus is for each byte but the first
const BLANK = 0x20;
const SPACE_BYTES = encodeUtf8(SPACE);
/** @type {Uint8Array} */
const NO_BYTES = new Uint8Array();

/** @typedef {{ piece: string, id: number }} Token */
/** @typedef {{ tables: Uint8Array, addDummyPrefix: boolean, removeExtraSpaces: boolean, escapeSpaces: boolean }} NormalizerSpec */

export class SentencePieceModel {
  /** @type {string[]} */
  pieces = [];
  /** @type {number[]} */
  scores = [];
  /** @type {number[]} */
  types = [];
  unknown = -1;
  #modelType = UNIGRAM;
  #suffix = false; // white space is at the end of words
  #byteFallback = false;
  #unknownSurface = " ⁇ ";
  #minScore = Infinity;
  /** @type {Map<string, number>} those that text is split into */
  #ids = new Map();
  /** @type {Map<string, number>} */
  #reserved = new Map();
  /** @type {string[]} */
  #userDefined = [];
  #trie = new TrieNode(); // of the same pieces

  /** @param {Uint8Array} file */
  constructor(file) {
    let normalizer = readNormalizer(NO_BYTES);
    /** @type {NormalizerSpec | null} */
    let denormalizer = null;
    for (const { number, bytes } of fieldsOf(file)) {
      if (number === 1) this.#addPiece(bytes);
      else if (number === 2) this.#readTrainer(bytes);
      else if (number === 3) normalizer = readNormalizer(bytes);
      else if (number === 5) denormalizer = readNormalizer(bytes);
    }
    if (!this.pieces.length || this.unknown < 0) throw new DataError("the SentencePiece model has no pieces");
    if (![UNIGRAM, BPE, WORD, CHAR].includes(this.#modelType))
      throw new DataError(`the SentencePiece model has the unknown type ${this.#modelType}`);
    this.normalizer = new Normalizer(normalizer, this.#userDefined, this.#suffix);
    this.denormalizer = denormalizer?.tables.length ? new Normalizer(denormalizer, this.#userDefined, false) : null;
    this.unknownScore = Math.fround(this.#minScore - UNKNOWN_PENALTY);
  }

  /** @param {Uint8Array} message */
  #addPiece(message) {
    let piece = "", score = 0, type = NORMAL;
    for (const { number, value, bytes } of fieldsOf(message)) {
      if (number === 1) piece = decodePiece(bytes);
      else if (number === 2) score = value;
      else if (number === 3) type = value;
    }
    const id = this.pieces.push(piece) - 1;
    this.scores.push(score);
    this.types.push(type);
    const isSplit = type === NORMAL || type === USER_DEFINED || type === UNUSED;
    (isSplit ? this.#ids : this.#reserved).set(piece, id);
    if (isSplit && type !== UNUSED) this.#trie.add(piece, id);
    if (type === USER_DEFINED) this.#userDefined.push(piece);
    if (type === UNKNOWN) this.unknown = id;
    if (type === NORMAL) this.#minScore = Math.min(this.#minScore, score);
  }

  /** @param {Uint8Array} message */
  #readTrainer(message) {
    for (const { number, value, bytes } of fieldsOf(message)) {
      if (number === 3) this.#modelType = value;
      else if (number === 24) this.#suffix = !!value;
      else if (number === 35) this.#byteFallback = !!value;
      else if (number === 44) this.#unknownSurface = decodePiece(bytes);
    }
  }

  /** @param {number} id */
  isUnknown(id) {
    return this.types[id] === UNKNOWN || this.types[id] === BYTE;
  }

  /** Split a text into tokens. @param {string} text @returns {Token[]} */
  tokenize(text) {
    const normalized = this.normalizer.normalize(text);
    /** @type {Token[]} */
    const tokens = [];
    let wasUnknown = false;
    for (const token of normalized ? this.#split(normalized) : []) {
      const isUnknown = token.id === this.unknown;
      if (isUnknown && this.#byteFallback) tokens.push(...this.#byteTokens(token.piece));
      else if (isUnknown && wasUnknown) tokens[tokens.length - 1].piece += token.piece; // a run of them is one token
      else tokens.push(token);
      wasUnknown = isUnknown;
    }
    return tokens;
  }

  /** @param {number[]} ids */
  decode(ids) {
    let text = "", atStart = true, spaceSeen = false;
    /** @type {number[]} */
    let bytes = [];
    const flush = () => {
      text += replaceInvalid(Uint8Array.from(bytes));
      bytes = [];
    };
    for (const id of ids) {
      if (this.types[id] === BYTE) {
        bytes.push(parseInt(this.pieces[id].slice(3, 5), 16));
        continue;
      }
      flush();
      if (spaceSeen || text) atStart = false;
      let surface = this.#surface(id);
      spaceSeen = false;
      if (atStart && this.normalizer.stripsStart && surface.startsWith(SPACE) && !this.#isSpecial(id)) {
        surface = surface.slice(SPACE.length);
        spaceSeen = !this.normalizer.spec.removeExtraSpaces; // else all spaces at the start are removed
      }
      text += this.#isSpecial(id) ? surface : surface.replaceAll(SPACE, " ");
    }
    flush();
    return this.denormalizer ? this.denormalizer.normalize(text) : text;
  }

  #isSpecial(/** @type {number} */ id) {
    return this.types[id] === UNKNOWN || this.types[id] === CONTROL;
  }

  #surface(/** @type {number} */ id) {
    if (this.types[id] === CONTROL) return "";
    return this.types[id] === UNKNOWN ? this.#unknownSurface : this.pieces[id];
  }

  #idOf(/** @type {string} */ piece) {
    return this.#reserved.get(piece) ?? this.#ids.get(piece) ?? this.unknown;
  }

  /** @param {string} piece @returns {Token[]} */
  #byteTokens(piece) {
    return Array.from(encodeUtf8(piece), byte => {
      const name = `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
      return { piece: name, id: this.#idOf(name) };
    });
  }

  /** @param {string} text normalized @returns {Token[]} */
  #split(text) {
    if (this.#modelType === UNIGRAM) return this.#unigram(text);
    const pieces = this.#modelType === BPE ? this.#merge(text) : this.#plainPieces(text);
    return pieces.map(piece => ({ piece, id: this.#idOf(piece) }));
  }

  /** @param {string} text */
  #plainPieces(text) {
    if (this.#modelType === CHAR) return this.normalizer.symbols(text).map(symbol => symbol.piece);
    return text.split(this.#suffix ? /(?<=▁)/u : /(?=▁)/u);
  }

  /** Find the segmentation with the highest sum of scores. @param {string} text @returns {Token[]} */
  #unigram(text) {
    const size = text.length;
    const scores = new Float32Array(size + 1), starts = new Int32Array(size + 1).fill(-1), ids = new Int32Array(size + 1);
    for (let start = 0; start < size;) {
      const width = (text.codePointAt(start) ?? 0) > 0xffff ? 2 : 1;
      let hasSingle = false;
      /** @param {number} end @param {number} id @param {number} score */
      const take = (end, id, score) => {
        if (starts[end] >= 0 && !(score > scores[end])) return;
        scores[end] = score;
        starts[end] = start;
        ids[end] = id;
      };
      let node = this.#trie.children.get(text.charCodeAt(start));
      for (let end = start + 1; node; node = end < size ? node.children.get(text.charCodeAt(end++)) : undefined) {
        if (node.id < 0) continue;
        take(end, node.id, Math.fround(this.#scoreOf(node.id) + scores[start]));
        hasSingle ||= end === start + width;
      }
      if (!hasSingle) take(start + width, this.unknown, Math.fround(this.unknownScore + scores[start]));
      start += width;
    }
    const tokens = [];
    for (let end = size; end > 0; end = starts[end]) tokens.push({ piece: text.slice(starts[end], end), id: ids[end] });
    return tokens.reverse();
  }

  #scoreOf(/** @type {number} */ id) {
    if (this.types[id] !== USER_DEFINED) return this.scores[id];
    return USER_BONUS * (encodeUtf8(this.pieces[id]).length - 1); // above any score, so that it is mostly selected
  }

  /** Merge the pair of neighbours with the highest score, the leftmost first, until no merge is a piece. */
  #merge(/** @type {string} */ text) {
    const symbols = this.normalizer.symbols(text);
    const pieces = symbols.map(symbol => symbol.piece);
    const next = pieces.map((_, index) => (index + 1 < pieces.length ? index + 1 : -1));
    const previous = pieces.map((_, index) => index - 1);
    /** @type {Map<string, [string, string]>} */
    const halves = new Map(); // of pieces that are only used to build others
    const agenda = new Agenda();
    /** @param {number} left @param {number} right */
    const propose = (left, right) => {
      if (left < 0 || right < 0 || symbols[left].isFrozen || symbols[right].isFrozen) return;
      const merged = pieces[left] + pieces[right], id = this.#ids.get(merged);
      if (id === undefined) return;
      agenda.push({ score: this.scores[id], left, right, size: merged.length });
      if (this.types[id] === UNUSED) halves.set(merged, [pieces[left], pieces[right]]);
    };
    for (let index = 1; index < pieces.length; index++) propose(index - 1, index);
    for (let pair = agenda.pop(); pair; pair = agenda.pop()) {
      const { left, right, size } = pair;
      if (!pieces[left] || !pieces[right] || pieces[left].length + pieces[right].length !== size) continue;
      pieces[left] += pieces[right];
      pieces[right] = "";
      next[left] = next[right];
      if (next[right] >= 0) previous[next[right]] = left;
      propose(previous[left], left);
      propose(left, next[left]);
    }
    return pieces.filter(piece => piece).flatMap(piece => this.#resegment(piece, halves));
  }

  /** @param {string} piece @param {Map<string, [string, string]>} halves @returns {string[]} */
  #resegment(piece, halves) {
    const parts = this.types[this.#idOf(piece)] === UNUSED ? halves.get(piece) : undefined;
    return parts ? parts.flatMap(part => this.#resegment(part, halves)) : [piece];
  }
}

/** A node of a tree of pieces, by UTF-16 units. */
class TrieNode {
  /** @type {Map<number, TrieNode>} */
  children = new Map();
  id = -1; // of the piece that ends here

  /** @param {string} piece @param {number} id */
  add(piece, id) {
    /** @type {TrieNode} */
    let node = this;
    for (let at = 0; at < piece.length; at++) {
      const unit = piece.charCodeAt(at), next = node.children.get(unit) ?? new TrieNode();
      node.children.set(unit, next);
      node = next;
    }
    node.id = id;
  }
}

/** @typedef {{ score: number, left: number, right: number, size: number }} Pair */

/** A heap of pairs: the highest score first, of equal ones the leftmost. */
class Agenda {
  /** @type {Pair[]} */
  #heap = [];

  /** @param {Pair} pair */
  push(pair) {
    const heap = this.#heap;
    let at = heap.push(pair) - 1;
    for (let up = (at - 1) >> 1; at > 0 && isBefore(pair, heap[up]); at = up, up = (at - 1) >> 1) heap[at] = heap[up];
    heap[at] = pair;
  }

  pop() {
    const heap = this.#heap, top = heap[0], last = heap.pop();
    if (!heap.length || !last) return top;
    let at = 0;
    for (let down = 1; down < heap.length; at = down, down = 2 * at + 1) {
      if (down + 1 < heap.length && isBefore(heap[down + 1], heap[down])) down++;
      if (!isBefore(heap[down], last)) break;
      heap[at] = heap[down];
    }
    heap[at] = last;
    return top;
  }
}

/** @param {Pair} one @param {Pair} other */
const isBefore = (one, other) => one.score > other.score || (one.score === other.score && one.left < other.left);

/** @param {Uint8Array} message @returns {NormalizerSpec} */
function readNormalizer(message) {
  const spec = { tables: NO_BYTES, addDummyPrefix: true, removeExtraSpaces: true, escapeSpaces: true };
  for (const { number, value, bytes } of fieldsOf(message)) {
    if (number === 2) spec.tables = bytes;
    else if (number === 3) spec.addDummyPrefix = !!value;
    else if (number === 4) spec.removeExtraSpaces = !!value;
    else if (number === 5) spec.escapeSpaces = !!value;
  }
  return spec;
}

/** Replace characters as the tables of a model say: a trie of what to replace (Darts), and the replacement texts. */
class Normalizer {
  /** @param {NormalizerSpec} spec @param {string[]} userDefined are kept as they are @param {boolean} suffix */
  constructor(spec, userDefined, suffix) {
    this.spec = spec;
    this.suffix = suffix;
    this.stripsStart = spec.addDummyPrefix || spec.removeExtraSpaces;
    this.userDefined = userDefined.map(encodeUtf8).sort((one, other) => other.length - one.length);
    this.userTexts = [...userDefined].sort((one, other) => encodeUtf8(other).length - encodeUtf8(one).length);
    this.units = new Uint32Array();
    this.texts = NO_BYTES;
    if (spec.tables.length >= 4) {
      const { tables } = spec, size = new DataView(tables.buffer, tables.byteOffset).getUint32(0, true);
      this.units = new Uint32Array(tables.slice(4, 4 + size).buffer);
      this.texts = tables.subarray(4 + size);
    }
  }

  /** @param {string} text */
  normalize(text) {
    const input = encodeUtf8(text), output = new ByteList(), { removeExtraSpaces, addDummyPrefix } = this.spec;
    let at = 0;
    const space = this.spec.escapeSpaces ? SPACE_BYTES : Uint8Array.of(BLANK);
    while (removeExtraSpaces && at < input.length) {
      const { replacement, length } = this.#prefix(input, at);
      if (replacement.length !== 1 || replacement[0] !== BLANK) break;
      at += length;
    }
    if (at >= input.length) return "";
    if (!this.suffix && addDummyPrefix) output.add(space);
    for (let afterSpace = removeExtraSpaces; at < input.length;) {
      const { replacement, length } = this.#prefix(input, at);
      let start = 0;
      while (afterSpace && start < replacement.length && replacement[start] === BLANK) start++;
      for (let index = start; index < replacement.length; index++) {
        if (replacement[index] === BLANK) output.add(space);
        else output.push(replacement[index]);
      }
      if (start < replacement.length) afterSpace = replacement[replacement.length - 1] === BLANK;
      afterSpace &&= removeExtraSpaces;
      at += length;
    }
    while (removeExtraSpaces && output.endsWith(space)) output.length -= space.length;
    if (this.suffix && addDummyPrefix) output.add(space);
    return decodePiece(output.bytes());
  }

  /** Split a normalized text into user-defined symbols, which stay whole, and characters. @param {string} text */
  symbols(text) {
    const symbols = [];
    for (let at = 0; at < text.length;) {
      const known = this.userTexts.find(symbol => text.startsWith(symbol, at));
      const piece = known ?? String.fromCodePoint(text.codePointAt(at) ?? 0);
      symbols.push({ piece, isFrozen: known !== undefined });
      at += piece.length;
    }
    return symbols;
  }

  /**
   * Return the replacement of the longest known text at a position, or the character there.
   * @param {Uint8Array} input @param {number} at
   */
  #prefix(input, at) {
    const known = this.userDefined.length
      ? this.userDefined.find(symbol => symbol.every((byte, index) => input[at + index] === byte))
      : undefined;
    if (known) return { replacement: known, length: known.length };
    let length = 0, text = 0;
    if (this.units.length) {
      let node = offsetOf(this.units[0]);
      for (let index = at; index < input.length; index++) {
        node ^= input[index];
        const unit = this.units[node];
        if (unit === undefined || ((unit & 0x800000ff) >>> 0) !== input[index]) break;
        node ^= offsetOf(unit);
        if ((unit >>> 8) & 1) [text, length] = [this.units[node] & 0x7fffffff, index + 1 - at];
      }
    }
    if (length) return { replacement: this.texts.subarray(text, this.texts.indexOf(0, text)), length };
    const width = characterWidth(input[at]);
    return { replacement: input.subarray(at, at + width), length: width };
  }
}

/** @param {number} unit of the trie */
const offsetOf = unit => (unit >>> 10) << ((unit & 0x200) >>> 6);
/** @param {number} byte the first of a character */
const characterWidth = byte => (byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4);

/** Bytes that are appended one by one. */
class ByteList {
  #bytes = new Uint8Array(64);
  length = 0;

  /** @param {number} byte */
  push(byte) {
    if (this.length === this.#bytes.length) {
      const longer = new Uint8Array(2 * this.length);
      longer.set(this.#bytes);
      this.#bytes = longer;
    }
    this.#bytes[this.length++] = byte;
  }

  /** @param {Uint8Array} bytes */
  add(bytes) {
    for (const byte of bytes) this.push(byte);
  }

  /** @param {Uint8Array} bytes */
  endsWith(bytes) {
    return this.length >= bytes.length && bytes.every((byte, index) => this.#bytes[this.length - bytes.length + index] === byte);
  }

  bytes() {
    return this.#bytes.subarray(0, this.length);
  }
}
