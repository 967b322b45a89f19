// Convert text to UTF-8 and back.

const encoder = new TextEncoder(), decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

/** @param {string} text */
export const encodeUtf8 = text => encoder.encode(text);

/** Decode UTF-8; invalid sequences become U+FFFD as Python's `errors="replace"` has it. @param {Uint8Array} bytes */
export const decodePiece = bytes => decoder.decode(bytes);

/** Decode UTF-8; every byte that is not part of a valid character becomes U+FFFD. @param {Uint8Array} bytes */
export function replaceInvalid(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const length = [1, 2, 3, 4].find(count => at + count <= bytes.length && isValid(bytes.subarray(at, at + count)));
    text += length ? decoder.decode(bytes.subarray(at, at + length)) : "\ufffd";
    at += length ?? 1;
  }
  return text;
}

function isValid(/** @type {Uint8Array} */ bytes) {
  try {
    strict.decode(bytes);
    return true;
  } catch {
    return false;
  }
}
