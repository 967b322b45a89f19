"use strict";
// Draws the data of the page. Text is only ever set as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const { runs, difference, temperatures } = data;
const two = runs.length > 1;
const state = { step: 0, temperature: 1, view: "weights", heads: { encoder: [0, 0], decoder: [0, 0], cross: [0, 0] } };
const redraws = [];
const number = (value, digits = 4) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const percent = (share) => share > 0 && share < 0.00005 ? "< 0.01 %" : `${number(100 * share, 2)} %`;
const visible = (piece) => piece.replace(/[\u0000-\u001f\u007f-\u009f]/gu, (c) => `<${c.codePointAt(0).toString(16)}>`) || "∅";

function h(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "text", "path", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function array({ shape, data: encoded }) {
  const bytes = Uint8Array.from(atob(encoded), (c) => c.charCodeAt(0));
  return { shape, values: new Float32Array(bytes.buffer) };
}
for (const run of runs) {
  if (run.positions) run.positions = array(run.positions);
  for (const maps of Object.values(run.attention)) [maps.weights, maps.scores] = [array(maps.weights), array(maps.scores)];
  run.source_labels = [...run.source_pieces, ...Array(run.padded_length - run.source.length).fill("(padding)")].map(visible);
  run.target_labels = run.target_pieces.map(visible);
  run.piece = (token) => visible(run.pieces[token]);
}

function redraw() { for (const draw of redraws) draw(); }
function drawn(draw) { redraws.push(draw); draw(); }

function section(id, title, text, ...content) {
  document.querySelector("nav").append(h("a", { href: `#${id}` }, title));
  const found = h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), h("p", { class: "quiet" }, text), ...content);
  document.querySelector("main").append(found);
  return found;
}
function sides(make) {
  return h("div", { class: "sides" }, ...runs.map((run, index) => {
    const side = h("div", { class: "side" });
    if (two) side.append(h("h3", {}, `${index + 1}. ${run.name} (${run.model.precision})`));
    side.append(...[make(run, index)].flat().filter((one) => one !== null));
    return side;
  }));
}

// Colours are read from the style, so that a change of the theme redraws everything.
function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
function rgb(text) {
  const hex = text.length === 4 ? [...text.slice(1)].map((c) => c + c).join("") : text.slice(1);
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
function ramp() {
  const [cold, hot] = [rgb(colour("--cold")), rgb(colour("--hot"))];
  return (share) => `rgb(${cold.map((c, i) => Math.round(c + (hot[i] - c) * Math.min(1, Math.max(0, share)))).join(" ")})`;
}
function context(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  const paint = canvas.getContext("2d");
  paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  return paint;
}

// A map of cells that is read with the pointer or the arrow keys. content(): {rows, columns, share(r, c), rowLabels, columnLabels, say(r, c)};
// a share of null is a masked cell.
function map(label, content, { cell = null } = {}) {
  const canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": `${label}. Read its cells with the arrow keys.` });
  const said = h("output", { "aria-live": "polite" }, "Point at a cell, or use the arrow keys.");
  let at = null, layout = null;
  function draw() {
    const shown = content(), probe = canvas.getContext("2d");
    probe.font = "13px system-ui, sans-serif";
    const widest = (labels) => Math.min(150, Math.max(0, ...labels.map((text) => probe.measureText(text).width)));
    const left = widest(shown.rowLabels) + 10, top = widest(shown.columnLabels) + 10;
    const side = Math.max(16, Math.min(36, (two ? 440 : 560) / shown.columns)), size = cell ?? { width: side, height: side };
    layout = { ...shown, left, top, size };
    const paint = context(canvas, left + shown.columns * size.width + 2, top + shown.rows * size.height + 2);
    const scale = ramp();
    paint.font = "13px system-ui, sans-serif";
    paint.fillStyle = colour("--ink");
    paint.textBaseline = "middle";
    paint.textAlign = "right";
    shown.rowLabels.forEach((text, row) => paint.fillText(text, left - 6, top + (row + 0.5) * size.height, left - 8));
    shown.columnLabels.forEach((text, column) => {
      paint.save();
      paint.translate(left + (column + 0.5) * size.width, top - 6);
      paint.rotate(-Math.PI / 2);
      paint.textAlign = "left";
      paint.fillText(text, 0, 0, top - 8);
      paint.restore();
    });
    const gap = size.width > 8 ? 1 : 0;
    for (let row = 0; row < shown.rows; row++) for (let column = 0; column < shown.columns; column++) {
      const share = shown.share(row, column), x = left + column * size.width, y = top + row * size.height;
      if (share === null) {
        paint.strokeStyle = colour("--hatch");
        paint.beginPath();
        paint.moveTo(x + 2, y + size.height - 3);
        paint.lineTo(x + size.width - 3, y + 2);
        paint.stroke();
      } else {
        paint.fillStyle = scale(share);
        paint.fillRect(x, y, size.width - gap, size.height - gap);
      }
    }
    paint.strokeStyle = colour("--line");
    paint.strokeRect(left - 0.5, top - 0.5, shown.columns * size.width + 1, shown.rows * size.height + 1);
    if (at) {
      paint.strokeStyle = colour("--ink");
      paint.lineWidth = 2;
      paint.strokeRect(left + at[1] * size.width, top + at[0] * size.height, Math.max(3, size.width - gap), size.height - gap);
    }
  }
  function move(row, column) {
    at = [Math.min(layout.rows - 1, Math.max(0, row)), Math.min(layout.columns - 1, Math.max(0, column))];
    draw();
    said.textContent = layout.say(...at);
  }
  canvas.addEventListener("pointermove", (event) => {
    const column = Math.floor((event.offsetX - layout.left) / layout.size.width), row = Math.floor((event.offsetY - layout.top) / layout.size.height);
    if (row >= 0 && column >= 0 && row < layout.rows && column < layout.columns) move(row, column);
  });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    at ? move(at[0] + by[0], at[1] + by[1]) : move(0, 0);
  });
  drawn(() => {
    draw();
    if (at) move(...at);
  });
  return [h("div", { class: "map" }, canvas), said];
}

// Header and verdict.
function header() {
  const top = document.getElementById("top"), first = runs[0];
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = (name) => { document.documentElement.dataset.theme = name; redraw(); };
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const toggle = h("button", { id: "theme", "aria-label": "Change between light and dark", onclick: () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark") }, "◐");
  top.append(h("div", { class: "title" }, two ? h("h1", { dir: "auto" }, first.text) : h("h1", { dir: "auto" }, h("span", {}, first.text), " → ", first.translation.text), toggle));
  top.append(h("div", { class: "sides" }, ...runs.map((run, index) => {
    const { parameters, ...rest } = run.model;
    const facts = Object.entries(rest).map(([name, value]) => h("li", {}, `${name.replaceAll("_", " ")} ${value}`));
    return h("div", {},
      two ? h("h3", { dir: "auto" }, `${index + 1}. ${run.name}: ${run.translation.text}`) : null,
      h("ul", { class: "facts" }, h("li", {}, run.name), h("li", {}, parameters < 1e6 ? `${parameters.toLocaleString("en")} parameters` : `${number(parameters / 1e6, 1)} million parameters`), ...facts),
      ...run.notes.map((note) => h("p", { class: "quiet note" }, note)));
  })));
  if (two) top.append(h("p", { class: "verdict", id: "verdict" }, verdict()));
}
function verdict() {
  const { parted, reasons, same_translation, log_probabilities, heads } = difference;
  if (reasons.length) return reasons.join(" ") + (same_translation ? " They are equal." : " They differ.");
  const largest = Math.max(0, ...log_probabilities.map(Math.abs)), weights = Math.max(0, ...Object.values(heads).flat(2));
  const steps = difference.common_steps === 1 ? "the one step" : `the ${difference.common_steps} steps`;
  const size = `In ${steps} before which both have read the same, log-probabilities differ by at most ${number(largest)}, attention weights by at most ${number(weights)}.`;
  if (parted === null) return `Both models choose the same tokens. ${size}`;
  const chosen = runs.map((run) => `“${run.piece(run.steps[parted].chosen)}” (${number(100 * Math.exp(run.steps[parted].log_probability), 1)} %)`);
  return `The models part at step ${parted + 1}: the first chooses ${chosen[0]}, the second ${chosen[1]}. ${size}`;
}

function pieces() {
  const chip = (text, id, kind = "") => h("li", { class: kind, dir: "auto" }, text, h("small", {}, id));
  section("pieces", "Pieces", "The model reads and writes pieces of words, each a row of its vocabulary. Sources are padded to a multiple of four pieces; a mask hides the padding. The decoder reads its own output, beginning with a start token.",
    sides((run) => [
      h("h3", {}, "Source"),
      h("ul", { class: "chips source" }, ...run.source_labels.map((text, at) => chip(text, run.source[at] ?? "–", run.source[at] === undefined ? "pad" : ""))),
      h("h3", {}, "Target"),
      h("ul", { class: "chips target" }, ...run.target_labels.map((text, at) => chip(text, run.target[at], difference && difference.parted !== null && at > difference.parted ? "parted" : ""))),
    ]));
}

function positions() {
  if (!runs.some((run) => run.positions)) return;
  section("positions", "Positions", "Attention does not know the order of its inputs, so a vector that depends on the position alone is added to each embedding. Each row is one position; the columns are the numbers of the vector.",
    sides((run) => run.positions ? map("Position embeddings", () => {
      const [rows, columns] = run.positions.shape, values = run.positions.values;
      const largest = values.reduce((found, value) => Math.max(found, Math.abs(value)), 1e-9);
      return {
        rows, columns, rowLabels: run.source_labels.slice(0, rows), columnLabels: [],
        share: (row, column) => (values[row * columns + column] / largest + 1) / 2,
        say: (row, column) => `Position ${row} (${run.source_labels[row]}), number ${column}: ${number(values[row * columns + column])}`,
      };
    }, { cell: { width: Math.max(1, Math.min(8, (two ? 480 : 1024) / run.positions.shape[1])), height: 20 } }) : h("p", {}, "This model has no table of positions.")));
}

function rampLegend(ends) {
  const [low, high] = [h("span"), h("span")];
  drawn(() => { [low.textContent, high.textContent] = ends(); });
  return h("span", { class: "quiet" }, low, h("span", { class: "ramp" }), high);
}
const KINDS = {
  encoder: ["Encoder self-attention", "Each source piece (row) looks at all source pieces (columns). The weights of a row sum to 1; padding is hidden. Choose a head among the small maps: 2.3 is the third head of layer 2.", "source", "source"],
  decoder: ["Decoder self-attention", "Each target piece (row) looks at itself and at those before it. What comes later does not exist yet; in training, a causal mask hides it.", "target", "target"],
  cross: ["Cross-attention", "Each target piece (row) looks at the source (columns) to predict the piece after it.", "target", "source"],
};
function attention(kind) {
  if (!runs.some((run) => run.attention[kind])) return;
  const [title, text, rowsOf, columnsOf] = KINDS[kind];
  const toggle = (view, label) => {
    const button = h("button", { onclick: () => { state.view = view; redraw(); } }, label);
    drawn(() => button.setAttribute("aria-pressed", state.view === view));
    return button;
  };
  section(kind, title, text,
    h("div", { class: "tools" }, h("span", { class: "quiet" }, "Show"), toggle("weights", "weights"), toggle("scores", "scores q·k"), rampLegend(() => state.view === "weights" ? ["0", "1"] : ["lowest of the head", "highest"])),
    sides((run) => {
      const maps = run.attention[kind];
      if (!maps) return h("p", {}, "This model has none.");
      const [layers, heads, rows, columns] = maps.weights.shape;
      const chosen = () => [Math.min(layers - 1, state.heads[kind][0]), Math.min(heads - 1, state.heads[kind][1])];
      const first = ([layer, head]) => (layer * heads + head) * rows * columns;
      const [rowLabels, columnLabels] = [run[`${rowsOf}_labels`].slice(0, rows), run[`${columnsOf}_labels`].slice(0, columns)];
      const overview = h("div", { class: "heads", role: "group", "aria-label": `${title}: heads` });
      overview.style.gridTemplateColumns = `repeat(${heads}, max-content)`;
      for (let layer = 0; layer < layers; layer++) for (let head = 0; head < heads; head++) overview.append(thumbnail(kind, maps, [layer, head], chosen, first([layer, head])));
      return [h("div", { class: "attention" }, overview, h("div", { class: "one" }, ...map(`${title}, one head`, () => {
        const start = first(chosen()), [layer, head] = chosen(), { weights, scores } = maps;
        let low = Infinity, high = -Infinity;
        for (let at = start; at < start + rows * columns; at++) if (scores.values[at] > -Infinity) { low = Math.min(low, scores.values[at]); high = Math.max(high, scores.values[at]); }
        return {
          rows, columns, rowLabels, columnLabels,
          share: (row, column) => {
            const score = scores.values[start + row * columns + column];
            if (score === -Infinity) return null;
            return state.view === "weights" ? weights.values[start + row * columns + column] : (score - low) / (high - low || 1);
          },
          say: (row, column) => {
            const at = start + row * columns + column, where = `Layer ${layer + 1}, head ${head + 1}: “${rowLabels[row]}” (${row}) → “${columnLabels[column]}” (${column})`;
            if (scores.values[at] === -Infinity) return `${where}: hidden by the mask`;
            return `${where}: weight ${number(weights.values[at])}, score ${number(scores.values[at], 2)}`;
          },
        };
      }))), maps.recomputed && kind === "encoder" ? h("p", { class: "quiet" }, "The fused operators of the graphs do not return their weights: here and below, they are computed again from queries and keys. The bias of the keys is left out of the graph, which shifts the scores of a row and changes no weight.") : null];
    }));
}
function thumbnail(kind, maps, [layer, head], chosen, start) {
  const [, , rows, columns] = maps.weights.shape, canvas = h("canvas", { width: columns, height: rows, "aria-hidden": "true" });
  const change = difference?.heads[kind]?.[layer]?.[head];
  const button = h("button", {
    "aria-label": `Layer ${layer + 1}, head ${head + 1}${change === undefined ? "" : `, differs by ${number(change)}`}`, class: change > 0.1 ? "far" : "",
    onclick: () => { state.heads[kind] = [layer, head]; redraw(); },
  }, canvas, `${layer + 1}.${head + 1}`, change === undefined ? "" : ` Δ ${number(change, 3)}`);
  drawn(() => {
    const paint = canvas.getContext("2d"), scale = ramp();
    for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) {
      paint.fillStyle = scale(maps.weights.values[start + row * columns + column]);
      paint.fillRect(column, row, 1, 1);
    }
    button.setAttribute("aria-pressed", chosen()[0] === layer && chosen()[1] === head);
  });
  return button;
}

function masks() {
  if (!runs.some((run) => run.attention.encoder)) return;
  section("masks", "Masks", "A mask replaces scores by minus infinity, so that the softmax gives them a weight of exactly zero: padding, which every attention over the source ignores, and in the decoder the future.",
    sides((run) => h("div", { class: "attention" }, ...["cross", "decoder"].filter((kind) => run.attention[kind]).map((kind) => {
      const { shape, values } = run.attention[kind].scores, [, , rows, columns] = shape;
      const name = kind === "cross" ? "Padding mask" : "Causal mask";
      const hidden = (row, column) => values[row * columns + column] === -Infinity;
      return h("div", { class: "one" }, h("h3", {}, name), ...map(name, () => ({
        rows, columns, rowLabels: run.target_labels.slice(0, rows), columnLabels: run[kind === "cross" ? "source_labels" : "target_labels"].slice(0, columns),
        share: (row, column) => hidden(row, column) ? null : 0.75,
        say: (row, column) => `“${run.target_labels[row]}” ${hidden(row, column) ? "must not see" : "sees"} “${run[kind === "cross" ? "source_labels" : "target_labels"][column]}”`,
      }), { cell: { width: 20, height: 20 } }));
    }))));
}

function slider(id, label, range, read, change, show) {
  const shown = h("span", {}), input = h("input", { type: "range", id, ...range, oninput: () => { change(Number(input.value)); redraw(); } });
  drawn(() => { input.value = read(); shown.textContent = show(); input.setAttribute("aria-valuetext", show()); });
  return h("label", {}, label, input, shown);
}
const most = Math.max(...runs.map((run) => run.steps.length));
function stepSlider(id) {
  return slider(id, "Step", { min: 1, max: most, step: 1 }, () => state.step + 1, (value) => { state.step = value - 1; }, () => `${state.step + 1} of ${most}`);
}
function steps() {
  section("steps", "Steps", "At each step the decoder gives every piece of the vocabulary a logit; the softmax of logit / temperature is its probability. A low temperature prefers the likeliest piece, a high one evens them out. The chosen piece is bold.",
    h("div", { class: "tools" }, stepSlider("step-of-words"),
      slider("temperature", "Temperature", { min: temperatures[0], max: temperatures.at(-1), step: 0.05 }, () => state.temperature, (value) => { state.temperature = value; }, () => number(state.temperature, 2))),
    sides((run, index) => {
      const read = h("p", {}), bars = h("dl", { class: "bars" });
      drawn(() => {
        const step = run.steps[state.step];
        bars.replaceChildren();
        if (!step) { read.textContent = "The translation has ended."; return; }
        const at = temperatures.reduce((best, one, place) => Math.abs(one - state.temperature) < Math.abs(temperatures[best] - state.temperature) ? place : best, 0);
        read.textContent = `After ${run.target_labels.slice(0, state.step + 1).map((text) => `“${text}”`).join(" ")}`;
        read.className = two && difference.parted === state.step ? "parted" : "";
        let rest = 1;
        step.tokens.forEach((token, place) => {
          const share = Math.exp(step.logits[place] / temperatures[at] - step.log_totals[at]);
          rest -= share;
          const bar = h("div", { class: "bar" });
          bar.style.width = `${100 * share}%`;
          bars.append(h("dt", { class: token === step.chosen ? "chosen" : "", dir: "auto", "data-token": token }, run.piece(token)), h("dd", {}, bar), h("dd", { class: "number" }, percent(share)));
        });
        const bar = h("div", { class: "bar" });
        bar.style.width = `${Math.max(0, 100 * rest)}%`;
        bars.append(h("dt", { class: "quiet" }, "all others"), h("dd", {}, bar), h("dd", { class: "number" }, `${number(Math.max(0, 100 * rest), 2)} %`));
      });
      return [read, bars];
    }));
}

function cache() {
  section("cache", "KV cache", "The keys and values of earlier pieces do not change, so they are kept: each step computes those of one piece only, and reads the others. Those of the source are computed once. The colour is the norm of what a step has added.",
    h("div", { class: "tools" }, stepSlider("step-of-cache")),
    sides((run) => {
      const names = Object.keys(run.cache.norms), table = h("table"), text = h("p", { class: "quiet" }), last = run.cache.bytes.length;
      const largest = Object.fromEntries(names.map((name) => [name, Math.max(...run.cache.norms[name])]));
      drawn(() => {
        const step = Math.min(state.step, last - 1), scale = ramp();
        table.replaceChildren(h("thead", {}, h("tr", { class: "column" }, h("td"), ...run.target_labels.slice(0, last).map((label, at) => h("th", { scope: "col" }, at <= step ? label : " ")))),
          h("tbody", {}, ...names.map((name) => h("tr", {}, h("th", { scope: "row" }, name.replace("past_", "").replace(".", " of layer ").replace(/\d+$/u, (layer) => Number(layer) + 1)),
            ...run.cache.norms[name].map((norm, at) => {
              const cell = h("td", { class: at <= step ? "cell" : "cell empty", title: at <= step ? `norm ${number(norm, 3)}` : "empty" });
              if (at <= step) cell.style.background = scale(norm / largest[name]);
              return cell;
            })))));
        const grown = run.cache.kind === "keys and values" ? `${step + 1} of ${last} pieces` : `the ${run.cache.kind} of the decoder, which do not grow`;
        text.textContent = `After step ${step + 1}: ${grown}, ${run.cache.bytes[step].toLocaleString("en")} bytes for one row` +
          (run.search.num_beams > 1 ? ` (the beam search has ${run.search.num_beams} rows)` : "") + `; ${run.cache.cross_bytes.toLocaleString("en")} bytes for the source.`;
      });
      return [h("div", { class: "scroll" }, table), text];
    }));
}

const FATES = {
  kept: "kept: goes on", finished: "finished: a hypothesis", worse: "ended, but better hypotheses exist", pruned: "pruned: other candidates are better", stopped: "kept, but the search ended here",
};
function tree() {
  section("tree", "Beam search", "Each beam proposes its likeliest continuations (a column); the best of all of them go on (solid), the others are pruned (dashed). The translation is blue. The small numbers are the probability of the piece and the sum of the log-probabilities. Move with the arrow keys.",
    sides((run) => run.tree ? [beamTree(run), hypotheses(run)] : h("p", {}, run.search.do_sample ? "This search drew its pieces at random: there is one output at a time, and nothing is pruned." : "This is a greedy search: it takes the likeliest piece of each step, so there is one beam and nothing is pruned.")));
}
function hypotheses(run) {
  const divisor = (length) => run.search.length_penalty === 1 ? length : `${length}^${run.search.length_penalty}`;
  return h("ol", { class: "hypotheses" }, ...run.tree.hypotheses.map((one) => h("li", {}, one.tokens.map(run.piece).join(" "), h("span", { class: "quiet" }, `score ${number(one.score)}, the sum of ${one.tokens.length} log-probabilities divided by ${divisor(one.tokens.length)}`))));
}
function beamTree(run) {
  const [width, height, gapX, gapY] = [92, 38, 44, 8], columns = run.tree.steps, tallest = Math.max(...columns.map((nodes) => nodes.length));
  const x = (column) => 12 + (column + 1) * (width + gapX), y = (row) => 10 + row * (height + gapY);
  const svg = h("svg", { width: x(columns.length - 1) + width + 12, height: y(tallest) + 4, role: "group", "aria-label": "Tree of the beam search" });
  const said = h("output", { "aria-live": "polite" }, " "), groups = [];
  svg.append(box(12, y(0), "kept best", run.target_labels[0], "start", "The start token", [-1, 0]));
  let parents = [{ column: -1, row: 0 }];
  columns.forEach((nodes, column) => {
    const next = [];
    groups.push([]);
    nodes.forEach((node, row) => {
      const from = parents[node.parent] ?? parents[0], fromX = (from.column < 0 ? 12 : x(from.column)) + width, fromY = y(from.row) + height / 2;
      const [toX, toY] = [x(column), y(row) + height / 2], middle = (fromX + toX) / 2;
      svg.prepend(h("path", { class: `edge ${node.best ? "best" : ""}`, d: `M${fromX} ${fromY}C${middle} ${fromY} ${middle} ${toY} ${toX} ${toY}` }));
      const text = `Step ${column + 1}, candidate ${row + 1}: “${run.piece(node.token)}”, probability ${number(100 * Math.exp(node.token_score), 2)} %, sum ${number(node.score)}, ${FATES[node.fate]}${node.best ? ", part of the translation" : ""}`;
      const group = box(toX, y(row), `${node.fate} ${node.best ? "best" : ""}`, run.piece(node.token), `${number(100 * Math.exp(node.token_score), 1)} %  Σ ${number(node.score, 2)}`, text, [column, row]);
      groups[column].push(group);
      svg.append(group);
      if (node.beam !== null) next[node.beam] = { column, row };
    });
    parents = next;
  });
  function box(left, top, kind, piece, small, text, place) {
    const group = h("g", { class: kind, tabindex: place[0] === 0 && place[1] === 0 ? 0 : -1, role: "img", "aria-label": text, onfocus: () => { said.textContent = text; }, onpointerenter: () => { said.textContent = text; }, onkeydown: (event) => move(event, place) },
      h("rect", { x: left, y: top, width, height, rx: 6 }), h("text", { x: left + 7, y: top + 15, class: kind.startsWith("pruned") ? "struck" : "" }, piece.length > 12 ? `${piece.slice(0, 11)}…` : piece), h("text", { x: left + 7, y: top + 30, class: "score" }, small));
    return group;
  }
  function move(event, [column, row]) {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    const nodes = groups[column + by[0]] ?? [], target = nodes[Math.min(Math.max(0, row + by[1]), nodes.length - 1)];
    target?.focus();
  }
  return [h("div", { class: "legend" }, ...Object.entries(FATES).map(([fate, text]) => h("span", {}, h("span", { class: `key ${fate}` }), text))), h("div", { class: "scroll" }, svg), said].reduce((all, one) => { all.append(one); return all; }, h("div"));
}

function times() {
  section("times", "Time", "Of one run on the CPU, after a first one has loaded everything.",
    sides((run) => {
      const { tokenize, encoder, decoder, search, detokenize } = run.times, sum = (values) => values.reduce((a, b) => a + b, 0);
      const parts = [["text to pieces", tokenize], ["encoder", encoder], [`decoder, ${decoder.length} calls`, sum(decoder)], ["search between the calls", search], ["pieces to text", detokenize]];
      const whole = sum(parts.map(([, seconds]) => seconds));
      const bars = h("dl", { class: "bars" });
      parts.forEach(([name, seconds]) => {
        const bar = h("div", { class: "bar" });
        bar.style.width = `${100 * seconds / whole}%`;
        bars.append(h("dt", {}, name), h("dd", {}, bar), h("dd", { class: "number" }, `${number(1000 * seconds, 2)} ms`));
      });
      return [bars, h("p", { class: "quiet" }, `${number(1000 * whole, 2)} ms in all with ${run.times.threads === 1 ? "one thread" : `${run.times.threads} threads`}; the first decoder call took ${number(1000 * decoder[0], 2)} ms.`)];
    }));
}

document.documentElement.classList.toggle("two", two);
header();
pieces();
positions();
for (const kind of ["encoder", "decoder", "cross"]) attention(kind);
masks();
steps();
cache();
tree();
times();
if (difference && difference.parted !== null && difference.parted !== undefined) { state.step = difference.parted; redraw(); }
document.documentElement.dataset.ready = "yes";
