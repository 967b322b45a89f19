// The errors that this package raises deliberately: one sentence that says what was found and what to do.

export class Seq2EdgeError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

/** Invalid arguments or options. */
export class UsageError extends Seq2EdgeError {}

/** Text or a vocabulary that cannot be used. */
export class DataError extends Seq2EdgeError {}

/** A bundle that is missing, broken or not supported. */
export class BundleError extends Seq2EdgeError {}

/** The browser lacks something, or ran out of memory. */
export class BrowserError extends Seq2EdgeError {}

const NO_MEMORY = /memory|bad_alloc|Aborted\(\)|allocation failed|Invalid (array|typed array) length/iu;

/** Return what an error of the browser or of onnxruntime means, if it means that memory is short. @param {unknown} error */
export function asMemoryError(error) {
  const isKnown = error instanceof Seq2EdgeError, text = error instanceof Error ? error.message : `${error}`;
  if (isKnown || !(typeof error === "number" || NO_MEMORY.test(text))) return null; // a number is a C++ exception
  return new BrowserError("the browser has not enough memory for this model: close other pages, or use a smaller one");
}
