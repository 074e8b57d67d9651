// The page about a quantized model: what it was and is, the front, each layer, each range. Every name of the model is set as text.

const facts = JSON.parse(document.getElementById("facts").textContent);
const main = document.getElementById("main");
const SVG = "http://www.w3.org/2000/svg";

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text ?? "";
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, value);
  }
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, value);
  }
  element.textContent = text ?? "";
  return element;
}

const narrowName = facts.precision === "fp8" ? "fp8" : "int8";
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const number = (value, digits = 4) => isNumber(value) ? String(Number(value.toPrecision(digits))) : "–";
const percent = (value, digits = 3) => isNumber(value) ? `${number(value * 100, digits)} %` : "–";

function bytes(value) {
  if (!isNumber(value)) {
    return "–";
  }
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) {
    value /= 1024;
  }
  return `${number(value, 3)} ${units[unit]}`;
}

function section(id, title, text) {
  const part = make("section", "", {id});
  part.append(make("h2", title), make("p", text));
  main.append(part);
  return part;
}

/// Columns: title, what it shows (text or element), and what it is sorted by, if it is a number.
function table(part, rows, columns, rowClass = () => "") {
  const box = make("div", "", {class: "scroll"});
  const whole = make("table");
  const head = whole.createTHead().insertRow();
  const body = whole.createTBody();
  const fill = (ordered) => {
    body.replaceChildren(...ordered.map((row) => {
      const line = make("tr", "", {class: rowClass(row)});
      for (const {show, key, kind} of columns) {
        const shown = show(row);
        const cell = make("td", typeof shown === "string" ? shown : "", {class: kind ?? (key ? "number" : "")});
        if (typeof shown !== "string") {
          cell.append(shown);
        }
        line.append(cell);
      }
      return line;
    }));
  };
  for (const {title, key} of columns) {
    const cell = make("th", key ? "" : title);
    if (key) {
      const button = make("button", title, {type: "button", title: "Sort, the largest first"});
      button.onclick = () => fill([...rows].sort((a, b) => (key(b) ?? -Infinity) - (key(a) ?? -Infinity)));
      cell.append(button);
    }
    head.append(cell);
  }
  fill(rows);
  box.append(whole);
  part.append(box);
}

function costs() {
  const cost = facts.cost;
  if (!cost) {
    return;
  }
  const isShare = cost.unit === "share";
  const score = (value) => isShare ? percent(value, 4) : number(value, 5);
  const part = section("cost", "Before and after",
      `${cost.metric} on ${cost.samples} samples of ${cost.data}; latency of one sample with ${cost.threads} threads of ${cost.level}, both in turn; peak memory of opening the engine and a first run.`);
  const interval = cost.drop_interval_95;
  const drop = `loses ${percent(cost.drop)}` + (interval ? ` (${percent(interval[0])} to ${percent(interval[1])})` : "");
  const ratio = cost.latency_ratio_interval_95;
  table(part, [
    [cost.metric, score(cost.before.value), score(cost.after.value), drop],
    ["latency", `${number(cost.before.latency_ms)} ms`, `${number(cost.after.latency_ms)} ms`, `${number(cost.latency_ratio, 3)} x (${number(ratio[0], 3)} to ${number(ratio[1], 3)})`],
    ["file", bytes(cost.before.file_bytes), bytes(cost.after.file_bytes), `${number(cost.after.file_bytes / cost.before.file_bytes, 3)} x`],
    ["engine", bytes(cost.before.engine_bytes), bytes(cost.after.engine_bytes), `${number(cost.after.engine_bytes / cost.before.engine_bytes, 3)} x`],
    ["peak memory", bytes(cost.before.peak_memory_bytes), bytes(cost.after.peak_memory_bytes), `${number(cost.after.peak_memory_bytes / cost.before.peak_memory_bytes, 3)} x`],
  ], ["", "before", "after", "difference (95 % interval)"].map((title, i) => ({title, show: (row) => row[i]})));
}

function front() {
  const search = facts.search;
  if (!search) {
    return;
  }
  const part = section("front", "Forms that were measured",
      `${search.metric} of the model itself is ${number(search.model_value, 5)}. Losses on ${search.test_samples} samples of ${search.test}; latency of one sample beside the model's, in turn. Blue is what was taken, green keeps what was asked for.`);
  const forms = search.forms.filter((form) => isNumber(form.drop));
  const width = 640, height = 260, left = 60, bottom = 40;
  const svg = draw("svg", {viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": "Loss over latency of each form"});
  const range = (values) => {
    const low = Math.min(...values), high = Math.max(...values), rim = (high - low || Math.abs(high) || 1) * 0.08;
    return [low - rim, high + rim];
  };
  if (forms.length > 0) {
    const [fast, slow] = range(forms.map((form) => form.latency_ms));
    const [least, most] = range(forms.map((form) => form.drop));
    const x = (value) => left + (value - fast) / (slow - fast) * (width - left - 20);
    const y = (value) => 10 + (most - value) / (most - least) * (height - bottom - 10);
    svg.append(draw("path", {class: "axis", fill: "none", d: `M${left} 10V${height - bottom}H${width - 20}`}));
    for (const value of [fast, slow]) {
      svg.append(draw("text", {x: x(value), y: height - bottom + 15, "text-anchor": value === fast ? "start" : "end"}, `${number(value, 3)} ms`));
    }
    for (const value of [least, most]) {
      svg.append(draw("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, percent(value, 2)));
    }
    svg.append(draw("text", {x: (left + width) / 2, y: height - 8, "text-anchor": "middle"}, "latency"), draw("text", {x: 4, y: height / 2}, "loss"));
    for (const form of [...forms].sort((a, b) => a.chosen - b.chosen)) {
      const dot = draw("circle", {class: `form ${form.chosen ? "chosen" : form.fits ? "fits" : ""}`, cx: x(form.latency_ms), cy: y(form.drop), r: form.chosen ? 7 : 5});
      dot.append(draw("title", {}, `${number(form.latency_ms)} ms, loses ${percent(form.drop)}, ${form.int8_layers} layers in int8`));
      svg.append(dot);
    }
    part.append(svg);
  }
  table(part, search.forms, [
    {title: "loss", show: (form) => percent(form.drop), key: (form) => form.drop},
    {title: "95 % interval", show: (form) => form.drop_interval_95 ? `${percent(form.drop_interval_95[0])} to ${percent(form.drop_interval_95[1])}` : "–"},
    {title: "latency", show: (form) => `${number(form.latency_ms)} ms`, key: (form) => form.latency_ms},
    {title: "x model", show: (form) => number(form.latency_ratio, 3), key: (form) => form.latency_ratio},
    {title: "int8 layers", show: (form) => String(form.int8_layers), key: (form) => form.int8_layers},
    {title: "", show: (form) => form.chosen ? "taken" : form.fits ? "as asked" : ""},
  ], (form) => form.chosen ? "chosen" : "");
}

function layers() {
  if (!facts.layers) {
    return;
  }
  const searched = new Map();
  for (const candidate of facts.search?.candidates ?? []) {
    for (const layer of candidate.layers) {
      searched.set(layer.name, candidate);
    }
  }
  const narrow = (layer) => searched.get(layer.name)?.treatments.at(-1);
  const part = section("layers", "Layers", searched.size > 0
    ? "Error at the outputs is |a - b| / |b| with that layer (and those that share its quantizer) alone in int8; times are of its regions, conversions with them. Weight error is what rounding its weights loses, as mean squares."
    : "Weight error is what rounding a layer's weights loses, as mean squares. A search (--accuracy-drop) measures the error at the outputs too.");
  const most = Math.max(1e-30, ...[...searched.values()].map((candidate) => candidate.treatments.at(-1).error ?? 0));
  const error = (layer) => {
    const own = narrow(layer);
    const cell = make("span", own ? `${percent(own.error)}${own.estimated ? " (estimated)" : ""} ` : "–");
    if (own && isNumber(own.error)) {
      cell.append(make("span", "", {class: "bar", style: `width: ${Math.round(own.error / most * 90)}px`}));
    }
    return cell;
  };
  const columns = [{title: "layer", show: (layer) => layer.name, kind: "name"}, {title: "op", show: (layer) => layer.op ?? "Gather"}, {title: "form", show: (layer) => layer.treatment}];
  if (searched.size > 0) {
    columns.push({title: "error in int8", show: error, key: (layer) => narrow(layer)?.error, kind: ""},
                 {title: "int8", show: (layer) => narrow(layer) ? `${number(narrow(layer).us, 3)} us` : "–", key: (layer) => narrow(layer)?.us},
                 {title: "wide", show: (layer) => narrow(layer) ? `${number(searched.get(layer.name).treatments[0].us, 3)} us` : "–", key: (layer) => searched.get(layer.name)?.treatments[0].us});
  }
  columns.push({title: "weight error", show: (layer) => percent(layer.weight_error), key: (layer) => layer.weight_error},
               {title: "why", show: (layer) => layer.reason, kind: "name"});
  table(part, [...facts.layers, ...(facts.tables ?? [])], columns);
}

/// What was seen in grey; of it what the levels keep in green, and what they cut off in red. The range of a smoothed tensor is
/// that after the division, which nothing was seen of.
function rangeOf(tensor) {
  if (tensor.smooth_alpha > 0) {
    return make("span", `smoothed with alpha ${number(tensor.smooth_alpha, 2)}`);
  }
  const width = 180, [low, high] = tensor.seen, svg = draw("svg", {viewBox: `0 0 ${width} 12`, width, height: 12, role: "img", "aria-label": "range"});
  const least = Math.min(low, tensor.range[0]), most = Math.max(high, tensor.range[1]);
  const x = (value) => 4 + (value - least) / (most - least || 1) * (width - 8);
  const line = (from, to, kind) => to > from && svg.append(draw("line", {class: `range ${kind}`, x1: x(from), x2: x(to), y1: 6, y2: 6}));
  line(tensor.range[0], tensor.range[1], "kept");
  line(low, Math.min(tensor.range[0], high), "lost");
  line(Math.max(tensor.range[1], low), high, "lost");
  return svg;
}

function tensors() {
  if (!facts.tensors || facts.tensors.length === 0) {
    return;
  }
  const part = section("tensors", "Ranges",
      `${facts.precision === "fp8" ? "Scaled by what was seen in" : `By ${facts.ranges} of`} ${facts.samples} samples. Green is what the 256 values of ${narrowName} stand for, red what was seen and is cut off. Levels: on how many of them the middle 95 % of the values lie. What stands beside a smoothed tensor was seen before it was smoothed.`);
  table(part, facts.tensors, [
    {title: "tensor", show: (tensor) => tensor.name + (tensor.tensors > 1 ? ` and ${tensor.tensors - 1} that share its scale` : ""), kind: "name"},
    {title: "", show: rangeOf},
    {title: "seen", show: (tensor) => `${number(tensor.seen[0])} to ${number(tensor.seen[1])}`},
    {title: "range", show: (tensor) => `${number(tensor.range[0])} to ${number(tensor.range[1])}`},
    {title: "clipped", show: (tensor) => percent(tensor.clipped), key: (tensor) => tensor.clipped},
    {title: "signal over noise", show: (tensor) => isNumber(tensor.decibels) ? `${number(tensor.decibels, 3)} dB` : "exact", key: (tensor) => -(tensor.decibels ?? Infinity)},
    {title: "levels", show: (tensor) => number(tensor.levels, 3), key: (tensor) => -tensor.levels},
    {title: "read by", show: (tensor) => tensor.readers.join(", "), kind: "name"},
  ]);
}

document.getElementById("title").textContent = `${facts.model} → ${facts.output ?? "nothing that keeps what was asked for"}`;
const narrowLayers = (facts.layers ?? []).filter((layer) => layer.treatment === narrowName).length;
document.getElementById("summary").textContent = facts.layers
  ? `${narrowLayers} of ${facts.layers.length} layers in ${narrowName}; ${bytes(facts.bytes_after)} after ${bytes(facts.bytes_before)}` + (facts.search?.worst ? `; int8 in ${facts.search.worst} loses most` : facts.worst ? `; ${facts.worst} loses most` : "")
  : "";
for (const part of [costs, front, layers, tensors]) {
  part();
}
