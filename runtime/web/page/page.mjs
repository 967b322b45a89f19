// The page: choose a bundle, type, read the translation as it grows.

import { Seq2EdgeError, Translator } from "../src/index.mjs";

/** @typedef {{ path: string, title: string, bytes: number, source: string, target: string, precision: string }} SiteBundle */
/** @typedef {{ bundles: SiteBundle[], device: "wasm" | "auto", files: Record<string, { sha256: string, size: number }> }} Site */

const PAUSE = 250; // milliseconds after the last key before a translation starts
const MEGABYTE = 1e6;

/** @template {HTMLElement} T @param {string} id @returns {T} */
const element = id => /** @type {T} */ (document.getElementById(id));
const text = /** @type {HTMLTextAreaElement} */ (element("text"));
const output = /** @type {HTMLOutputElement} */ (element("translation"));
const model = /** @type {HTMLSelectElement} */ (element("model"));
const languages = {
  source: /** @type {HTMLSelectElement} */ (element("source-lang")),
  target: /** @type {HTMLSelectElement} */ (element("target-lang")),
};
const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });

/** @type {Translator | null} */
let translator = null;
let latest = 0; // number of the newest request; older ones stop

start().catch(show);

async function start() {
  const kept = keepForOffline();
  const response = await fetch("site.json").catch(() => null);
  if (!response) throw new Seq2EdgeError("the network is off, and this browser has not kept the page");
  if (!response.ok) throw new Seq2EdgeError("site.json is missing: make the site again");
  /** @type {Site} */
  const site = await response.json();
  for (const bundle of site.bundles) bundle.title = titleOf(bundle, site.bundles);
  for (const [index, bundle] of site.bundles.entries())
    model.add(new Option(bundle.title, `${index}`));
  element("model-label").hidden = site.bundles.length < 2;
  model.onchange = () => load(site, site.bundles[Number(model.value)]).catch(show);
  text.oninput = () => translateSoon();
  for (const select of Object.values(languages)) select.onchange = () => { nameLanguages(); translateNow(); };
  for (const choice of beamChoices()) choice.onchange = () => translateNow();
  element("clear").onclick = clear;
  element("copy").onclick = copy;
  text.value = new URLSearchParams(location.search).get("text") ?? text.value;
  await load(site, site.bundles[0]);
  const isKept = await kept;
  element("offline").textContent = isKept ? "This page works offline." : "This browser does not keep the page for offline use.";
  document.body.dataset.offline = `${isKept}`;
}

/** @param {Site} site @param {SiteBundle} bundle */
async function load(site, bundle) {
  const mine = ++latest, bar = /** @type {HTMLProgressElement} */ (element("progress"));
  translator?.close();
  translator = null;
  bar.hidden = false;
  status(`Loading ${bundle.title} …`);
  try {
    const loaded = await Translator.load(bundle.path, {
      device: site.device, sha256: site.files[`${bundle.path}/manifest.json`]?.sha256,
      onProgress: (bytes, total) => {
        bar.value = total ? bytes / total : 0;
        status(bytes < total ? `Loading ${bundle.title}: ${megabytes(bytes)} of ${megabytes(total)} MB` : `Starting ${bundle.title} …`);
      },
    });
    if (mine !== latest) return loaded.close();
    translator = loaded;
  } finally {
    bar.hidden = true;
  }
  offerLanguages();
  const { license, attribution } = translator.manifest.rights;
  /** @type {HTMLFieldSetElement} */ (element("search")).disabled = false;
  element("rights").textContent = [`Model: ${bundle.title}`, license, attribution].filter(part => part).map(part => part.replace(/\.?$/u, ".")).join(" ");
  for (const choice of beamChoices()) choice.checked = (translator.manifest.generation.num_beams > 1) === (choice.value !== "1");
  const place = translator.device === "webgpu" ? "on the GPU" : translator.threads === 1 ? "1 thread" : `${translator.threads} threads`;
  status(`Ready. ${bundle.title}, ${megabytes(bundle.bytes)} MB, ${place}.`);
  document.body.dataset.ready = "true";
  await translateNow();
}

/** Show a choice of languages for a multilingual model. */
function offerLanguages() {
  const { languages: known } = /** @type {Translator} */ (translator).manifest, codes = Object.keys(known.codes);
  const tagged = { source: known.source_tag !== "none", target: known.target_tag !== "none" };
  for (const side of /** @type {const} */ (["source", "target"])) {
    element(`${side}-label`).hidden = !tagged[side];
    languages[side].replaceChildren(...(tagged[side] ? codes : []).map(code => new Option(languageName(code), code)));
    if (tagged[side] && known[side]) languages[side].value = known[side];
  }
  nameLanguages();
}

function nameLanguages() {
  const { languages: known } = /** @type {Translator} */ (translator).manifest;
  element("source-name").textContent = languageName(languages.source.value || known.source) || "Text";
  element("target-name").textContent = languageName(languages.target.value || known.target) || "Translation";
  output.lang = (languages.target.value || known.target).split("_")[0];
}

let timer = 0;
function translateSoon() {
  latest++; // what runs is out of date
  clearTimeout(timer);
  timer = window.setTimeout(() => translateNow(), PAUSE);
  describeText();
}

async function translateNow() {
  const mine = ++latest;
  describeText();
  if (!translator || !text.value.trim()) return showTranslation("", "");
  output.classList.add("waiting");
  const started = performance.now();
  try {
    const stream = translator.stream(text.value, options());
    let whole = "", step = await stream.next();
    for (; !step.done; step = await stream.next()) {
      if (mine !== latest) return void stream.return(/** @type {any} */ (null));
      whole += step.value;
      showTranslation(whole, "");
    }
    if (mine !== latest) return;
    showTranslation(step.value.text, problems(step.value));
    status(`Translated in ${Math.round(performance.now() - started)} ms.`);
    document.body.dataset.translated = `${mine}`;
  } catch (error) {
    if (mine === latest) show(error);
  } finally {
    if (mine === latest) output.classList.remove("waiting");
  }
}

function options() {
  const beams = beamChoices().find(choice => choice.checked)?.value ?? "1";
  /** @type {import("../src/options.mjs").Options} */
  const chosen = { num_beams: Number(beams), num_return_sequences: 1 };
  if (languages.source.value) chosen.source_lang = languages.source.value;
  if (languages.target.value) chosen.target_lang = languages.target.value;
  return chosen;
}

/** The notes of a translation that a reader should know. @param {import("../src/translator.mjs").Translation} translation */
function problems({ notes, sentences }) {
  const shown = notes.filter(note => note !== `has ${sentences} sentences`);
  return shown.length ? `The text ${shown.join(", ")}.` : "";
}

/** @param {string} translation @param {string} note */
function showTranslation(translation, note) {
  output.value = translation;
  element("note").textContent = note;
  element("copy").hidden = !translation;
}

function describeText() {
  const count = [...text.value].length;
  element("count").textContent = count === 1 ? "1 character" : `${count} characters`;
  element("clear").hidden = !count;
}

function clear() {
  text.value = "";
  text.focus();
  translateNow();
}

async function copy() {
  await navigator.clipboard.writeText(output.value);
  element("copy").textContent = "Copied";
  setTimeout(() => { element("copy").textContent = "Copy"; }, 1500);
}

/** Say in one sentence what is wrong. @param {unknown} error */
function show(error) {
  const message = error instanceof Error ? error.message : `${error}`;
  const sentence = /^[a-z]+ /u.test(message) ? message.charAt(0).toUpperCase() + message.slice(1) : message; // not a file name
  status(`${sentence}.`, "error");
  document.body.dataset.failed = "true";
}

function status(/** @type {string} */ message, kind = "") {
  element("status").textContent = message;
  element("status").className = kind;
}

/** Let the page work offline from the next visit on, and return whether it will. */
async function keepForOffline() {
  try {
    await navigator.serviceWorker.register("sw.js");
    await navigator.serviceWorker.ready;
    return true;
  } catch {
    return false; // no service workers, or no room
  }
}

/** @returns {HTMLInputElement[]} */
const beamChoices = () => [...document.querySelectorAll("input[name=beams]")].map(input => /** @type {HTMLInputElement} */ (input));
/** @param {number} bytes */
const megabytes = bytes => (bytes / MEGABYTE).toFixed(1);

/** Name a bundle by its languages, and by its folder where that is not enough. @param {SiteBundle} bundle @param {SiteBundle[]} all */
function titleOf({ source, target, title }, all) {
  if (!source || !target) return title;
  const isOnly = all.filter(one => one.source === source && one.target === target).length === 1;
  return `${languageName(source)} to ${languageName(target)}${isOnly ? "" : ` (${title})`}`;
}

/** @param {string} code such as en, eng_Latn or de_DE */
function languageName(code) {
  try {
    return code ? names.of(code.replace("_", "-")) ?? code : "";
  } catch {
    return code;
  }
}
