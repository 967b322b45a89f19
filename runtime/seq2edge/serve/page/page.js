// Translate as you type. Nothing is stored but the colours, the languages and the API key, all in this browser.
const byId = (id) => document.getElementById(id);
const [source, marks, target, from, to, notes, list] = ["source", "source-marks", "target", "from", "to", "notes", "list"].map(byId);
const PAUSE = 250; // milliseconds without a key before a text is sent
const ALTERNATIVES = 3;
const LONGEST = 600; // characters of a text that has alternatives, and that a screen reader is told
const WARNINGS = /too long|unknown|cut|repeats|lost/;
let languages = [], limits = {}, models = [], asking = null, timer = 0, shown = null, choices = [];

const remember = (name, value) => { try { localStorage.setItem(`seq2edge.${name}`, value); } catch { /* not allowed here */ } };
const remembered = (name) => { try { return localStorage.getItem(`seq2edge.${name}`); } catch { return null; } };

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
}
setTheme(remembered("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
byId("theme").onclick = () => {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  remember("theme", document.documentElement.dataset.theme);
};

const say = (sentence) => { byId("status").textContent = sentence; };
const option = (code, name) => Object.assign(document.createElement("option"), { value: code, textContent: name });

async function start() {
  [languages, limits, models] = await Promise.all(["languages", "frontend/settings", "v1/models"].map(async (path) => (await fetch(path)).json()));
  const sources = languages.filter((one) => one.targets.length);
  if (sources.length > 1) from.append(option("auto", "Detect language"));
  sources.forEach((one) => from.append(option(one.code, one.name)));
  choose(from, remembered("from") || limits.language.source.code);
  fillTargets(remembered("to") || limits.language.target.code);
  byId("key-row").hidden = !limits.keyRequired;
  byId("key").value = remembered("key") || "";
  showCount();
  if (source.value) translate();
}

const choose = (select, code) => { if ([...select.options].some((one) => one.value === code)) select.value = code; };

function fillTargets(wanted) {
  const codes = from.value === "auto" ? languages.flatMap((one) => one.targets) : languages.find((one) => one.code === from.value).targets;
  to.replaceChildren(...languages.filter((one) => codes.includes(one.code)).map((one) => option(one.code, one.name)));
  choose(to, wanted);
  byId("swap").hidden = !languages.some((one) => one.code === to.value && one.targets.includes(from.value));
  for (const select of [from, to]) select.classList.toggle("single", select.options.length < 2); // there is nothing to choose
  target.lang = to.value;
  source.lang = from.value === "auto" ? "" : from.value;
  const model = chosenModel();
  byId("model").textContent = model ? `${model.name} · ${model.precision} · ${(model.parameters / 1e6).toFixed(0)} million parameters · ${model.license}` : "";
  byId("model").title = model ? model.attribution : "";
}

const chosenModel = () => models.find((one) => one.target_languages.includes(to.value) && (from.value === "auto" || one.source_languages.includes(from.value)));

function showCount() {
  const count = [...source.value].length;
  byId("count").textContent = count ? `${count.toLocaleString("en")} / ${limits.charLimit.toLocaleString("en")}` : "";
  byId("count").classList.toggle("over", count > limits.charLimit);
  byId("clear").hidden = !count;
  source.style.height = "0"; // to measure the text; its pane keeps its height meanwhile
  source.parentNode.style.minHeight = `${source.scrollHeight}px`;
  source.style.height = "";
}

function body(more) {
  const asked = { text: source.value, target_lang: to.value, source_lang: from.value, ...more };
  if (byId("key").value) asked.api_key = byId("key").value;
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked) };
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(block);
      yield [name, JSON.parse(data)];
    }
  }
}

async function translate() {
  asking?.abort();
  shown = null;
  light([]);
  if (!source.value.trim()) return finish(EMPTY);
  const ours = (asking = new AbortController());
  byId("spinner").hidden = false;
  target.classList.add("stale");
  target.setAttribute("aria-busy", "true");
  const begun = performance.now();
  try {
    const response = await fetch("v1/stream", { ...body(chosenModel()?.alignment ? { attention: "all" } : {}), signal: ours.signal });
    if (!response.ok) throw new Error((await response.json()).error);
    let text = "";
    for await (const [name, data] of events(response)) {
      if (ours.signal.aborted) return;
      if (name === "error") throw new Error(data.error);
      if (name === "text") {
        text += data.text;
        target.textContent = text;
        target.classList.remove("stale");
      } else {
        finish(data.translation);
        showDetected(data.detected_language);
        byId("speed").textContent = `${Math.max(1, Math.round(performance.now() - begun))} ms`;
      }
    }
    if (source.value.length <= LONGEST) showAlternatives(ours.signal);
  } catch (error) {
    if (ours.signal.aborted) return;
    finish(EMPTY);
    complain(error instanceof TypeError ? "the server does not answer" : error.message);
  }
}

function complain(sentence) {
  notes.replaceChildren(Object.assign(document.createElement("li"), { className: "error", textContent: sentence }));
  say(sentence);
}

const EMPTY = { text: "", notes: [] };

function finish(translation) {
  const { text, notes: remarks, words } = translation;
  byId("spinner").hidden = true;
  target.classList.remove("stale");
  target.removeAttribute("aria-busy");
  byId("others").hidden = true;
  byId("speed").textContent = "";
  byId("copy").disabled = !text;
  showDetected();
  shown = translation;
  if (words) showWords(text, words);
  else target.textContent = text;
  notes.replaceChildren(...remarks.map((remark) => {
    const item = Object.assign(document.createElement("li"), { textContent: remark.replace(/^has (\d+ sentences)$/, "$1") });
    item.classList.toggle("warn", WARNINGS.test(remark));
    return item;
  }));
  const heard = text.length > LONGEST ? "The translation is complete" : `Translation: ${text}`;
  if (text) say(`${heard}${remarks.length ? `. It ${remarks.join(", ")}.` : ""}`);
}

function showDetected(code) {
  byId("detected").textContent = code ? `${languages.find((one) => one.code === code)?.name ?? code} detected` : "";
}

function showWords(text, words) {
  const letters = [...text]; // the server counts characters, not UTF-16 units
  const nodes = [];
  let end = 0;
  for (const word of words) {
    nodes.push(letters.slice(end, word.target[0]).join(""));
    const span = Object.assign(document.createElement("span"), { className: "word", textContent: letters.slice(...word.target).join("") });
    span.onpointerenter = () => light(word.source);
    span.onpointerleave = () => light([]);
    nodes.push(span);
    end = word.target[1];
  }
  target.replaceChildren(...nodes, letters.slice(end).join(""));
}

function light(spans) {
  const letters = [...source.value], nodes = [];
  let end = 0;
  for (const [first, last] of spans) {
    nodes.push(letters.slice(end, first).join(""), Object.assign(document.createElement("span"), { className: "lit", textContent: letters.slice(first, last).join("") }));
    end = last;
  }
  marks.replaceChildren(...(spans.length ? [...nodes, letters.slice(end).join("")] : []));
}

// The other way round: pointing at a word of the text, or moving the cursor to it, lights its translation.
function lightTranslation(place) {
  target.querySelectorAll(".word").forEach((span, index) => {
    const own = shown?.words?.[index]?.source ?? [];
    span.classList.toggle("lit", own.some(([first, last]) => first <= place && place < last));
  });
}
const characters = (units) => [...source.value.slice(0, units)].length;
source.onpointermove = (event) => {
  const at = document.caretPositionFromPoint?.(event.clientX, event.clientY);
  lightTranslation(at?.offsetNode === source ? characters(at.offset) : -1);
};
source.onpointerleave = () => lightTranslation(-1);
source.onblur = () => lightTranslation(-1);
source.onkeyup = (event) => { if (/^(Arrow|Home|End)/.test(event.key)) lightTranslation(characters(source.selectionStart)); };

async function showAlternatives(signal) {
  const count = ALTERNATIVES + 1;
  const response = await fetch("v1/translate", { ...body({ num_beams: count, num_return_sequences: count }), signal });
  if (!response.ok || signal.aborted) return;
  const [best] = (await response.json()).translations;
  const texts = new Set([shown.text]);
  choices = [shown, ...(best.alternatives || []).filter((one) => !texts.has(one.text) && texts.add(one.text))];
  listChoices();
}

// All that can be chosen but the one that is shown, so that there is a way back.
function listChoices() {
  const others = choices.filter((one) => one !== shown);
  list.replaceChildren(...others.map((one) => {
    const button = Object.assign(document.createElement("button"), { type: "button", dir: "auto", title: `Use this one (score ${one.score.toFixed(2)})` });
    button.append(...differences(one.text, shown.text));
    button.onclick = () => { finish(one); listChoices(); target.focus(); };
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));
  byId("others").hidden = !others.length;
}

// The words of an alternative, with emphasis on those that the best translation does not have.
function differences(text, other) {
  const known = new Set(other.toLowerCase().match(/[\p{L}\p{N}]+/gu));
  return text.split(/([\p{L}\p{N}]+)/u).map((part, index) => (
    index % 2 && !known.has(part.toLowerCase()) ? Object.assign(document.createElement("strong"), { textContent: part }) : part));
}

async function copy() {
  if (byId("copy").disabled) return;
  try {
    await navigator.clipboard.writeText(target.textContent);
  } catch { // not a secure origin
    getSelection().selectAllChildren(target);
    document.execCommand("copy");
  }
  byId("speed").textContent = "Copied";
  say("The translation was copied.");
}

function clear() {
  source.value = "";
  showCount();
  translate();
  source.focus();
}

source.oninput = () => {
  showCount();
  light([]);
  clearTimeout(timer);
  timer = setTimeout(translate, source.value.trim() ? PAUSE : 0);
};
from.onchange = () => { fillTargets(to.value); remember("from", from.value); translate(); };
to.onchange = () => { fillTargets(to.value); remember("to", to.value); translate(); };
byId("swap").onclick = () => {
  const [old, text] = [from.value, target.textContent];
  choose(from, to.value);
  fillTargets(old);
  source.value = text;
  showCount();
  translate();
};
addEventListener("resize", () => languages.length && showCount());
byId("key").onchange = () => { remember("key", byId("key").value); translate(); };
byId("clear").onclick = clear;
byId("copy").onclick = copy;
document.onkeydown = (event) => {
  if (event.key === "Escape") clear();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); copy(); }
};
start().catch(() => complain("the server does not answer"));
