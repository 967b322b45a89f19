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
