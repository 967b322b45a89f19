// seq2edge-web: translate in the browser with a bundle of seq2edge, see docs/browser.md.

export { Translator } from "./client.mjs";
export { BrowserError, BundleError, DataError, Seq2EdgeError, UsageError } from "./errors.mjs";
export { BundleTranslator } from "./translator.mjs";
