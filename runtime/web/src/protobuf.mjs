// Read and write protobuf messages without generated classes.

import { DataError } from "./errors.mjs";

export const VARINT = 0, FIXED64 = 1, LEN = 2, FIXED32 = 5; // wire types

/** @typedef {{ number: number, type: number, value: number, bytes: Uint8Array }} Field */

/**
 * Yield the fields of a message: `value` of a varint or a float, `bytes` of all others.
 * @param {Uint8Array} data
 * @returns {Generator<Field>}
 */
export function* fieldsOf(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  let at = 0;
  const varint = () => {
    let value = 0, factor = 1, byte;
    do {
      if (at >= data.length) throw new DataError("a protobuf message ends in the middle of a field");
      byte = data[at++];
      value += (byte & 127) * factor; // exact up to 2 ** 53; only negative numbers are larger
      factor *= 128;
    } while (byte & 128);
    return value;
  };
  while (at < data.length) {
    const key = varint(), number = Math.floor(key / 8), type = key & 7;
    let value = 0, size = 0;
    if (type === VARINT) value = varint();
    else if (type === LEN) size = varint();
    else if (type === FIXED64) size = 8;
    else if (type === FIXED32) size = 4;
    else throw new DataError(`a protobuf message has a field of wire type ${type}`);
    if (at + size > data.length) throw new DataError("a protobuf message ends in the middle of a field");
    if (type === FIXED32) value = view.getFloat32(at, true);
    yield { number, type, value, bytes: data.subarray(at, at + size) };
    at += size;
  }
}

/** Collect the bytes of a message. */
export class Writer {
  /** @type {number[]} */
  #bytes = [];
  /** @type {Uint8Array[]} */
  #parts = [];

  /** @param {number} number @param {number} value not negative */
  varint(number, value) {
    this.#varint(number * 8 + VARINT);
    this.#varint(value);
    return this;
  }

  /** @param {number} number @param {Uint8Array | string} content */
  bytes(number, content) {
    const data = typeof content === "string" ? new TextEncoder().encode(content) : content;
    this.#varint(number * 8 + LEN);
    this.#varint(data.length);
    this.#flush();
    this.#parts.push(data);
    return this;
  }

  /** Copy a field as it was read. @param {Field} field */
  copy(field) {
    if (field.type === VARINT) return this.varint(field.number, field.value);
    if (field.type === LEN) return this.bytes(field.number, field.bytes);
    this.#varint(field.number * 8 + field.type);
    this.#flush();
    this.#parts.push(field.bytes);
    return this;
  }

  /** @returns {Uint8Array} */
  finish() {
    this.#flush();
    const whole = new Uint8Array(this.#parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of this.#parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  /** @param {number} value */
  #varint(value) {
    for (; value > 127; value = Math.floor(value / 128)) this.#bytes.push((value % 128) | 128);
    this.#bytes.push(value);
  }

  #flush() {
    if (this.#bytes.length) this.#parts.push(Uint8Array.from(this.#bytes));
    this.#bytes = [];
  }
}
