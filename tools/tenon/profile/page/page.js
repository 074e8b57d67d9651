const profile = JSON.parse(document.getElementById("profile").textContent);
const $ = (id) => document.getElementById(id);

function element(parent, tag, text, attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
}

function shape(parent, tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

const count = (number) => {
  for (const [size, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (number >= size) return `${(number / size).toPrecision(3)} ${prefix}`;
  }
  return `${Math.round(number)} `;
};
const percent = (part) => `${(part * 100).toFixed(1)} %`;
const time = (us) => us >= 1000 ? `${(us / 1000).toFixed(3)} ms` : `${us.toFixed(2)} us`;

/** Rows of the table: operators, alike ones together, or sums by a property of them. */
function rowsBy(what) {
  const regions = profile.regions;
  if (what === "groups") {
    return profile.groups.map((group) => ({...group, many: group.operators.length}));
  }
  const single = profile.operators.map((operator) => ({...operator, many: 1, limit: regions[operator.region].limit,
    of_limit: regions[operator.region].of_limit, cause: regions[operator.region].cause}));
  if (what === "operators") return single;
  const sums = new Map();
  for (const row of single) {
    const names = what === "module" ? prefixes(row.module) : [row[what] || "(not known)"];
    for (const name of names) {
      const sum = sums.get(name) ?? {name, time_us: 0, share: 0, flops: 0, bytes: 0, many: 0, longest: 0};
      for (const key of ["time_us", "share", "flops", "bytes"]) sum[key] += row[key];
      sum.many += 1;
      if (row.time_us > sum.longest) Object.assign(sum, {longest: row.time_us, class: row.class, limit: row.limit, of_limit: row.of_limit, cause: row.cause});
      sums.set(name, sum);
    }
  }
  return [...sums.values()];
}

/** "a/b/c" is in "a", "a/b" and "a/b/c". */
function prefixes(module) {
  const parts = (module || "(no module)").split("/");
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

let rows = [];

function showRows() {
  rows = rowsBy($("by").value).sort((a, b) => b.time_us - a.time_us);
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const body = $("rows");
  body.replaceChildren();
  let shown = 0;
  rows.forEach((row, index) => {
    if (!words.every((word) => row.name.toLowerCase().includes(word))) return;
    shown += 1;
    const line = element(body, "tr", "", {id: `row-${index}`});
    const share = element(line, "td", percent(row.share), {class: "share number"});
    element(share, "i", "", {style: `width:${Math.min(100, row.share * 100)}%`});
    element(line, "td", row.name + (row.many > 1 ? `  (${row.many} of them)` : "") + (row.split_by ? "  [split by the model]" : ""), {class: "name"});
    element(line, "td", time(row.time_us), {class: "number"});
    element(line, "td", count(row.flops), {class: "number"});
    element(line, "td", `${count(row.bytes)}B`, {class: "number"});
    element(line, "td", row.limit ? `${(row.of_limit * 100).toFixed(0)} % of ${row.limit}` : "");
    element(line, "td", row.class ? `${row.class}: ${row.cause}` : "");
  });
  $("said").textContent = `${shown} of ${rows.length} rows`;
  drawRoofline();
}

function choose(index) {
  for (const line of document.querySelectorAll("tr.chosen")) line.classList.remove("chosen");
  const line = $(`row-${index}`);
  if (line) {
    line.classList.add("chosen");
    line.scrollIntoView({block: "center"});
  }
}

function drawRoofline() {
  const drawing = $("roofline");
  drawing.replaceChildren();
  const dots = rows.map((row, index) => ({...row, index})).filter((row) => row.flops > 0 && row.bytes > 0 && row.time_us > 0);
  const tops = profile.limits.compute.map((limit) => limit.operations_per_s);
  const rates = dots.map((row) => row.flops / row.time_us * 1e6);
  const intensities = dots.map((row) => row.flops / row.bytes);
  if (dots.length === 0) return;
  const low = (values, least) => Math.floor(Math.log10(Math.max(least, Math.min(...values))));
  const x0 = low(intensities, 1e-3), x1 = Math.ceil(Math.log10(Math.max(10, ...intensities))) + 0.2;
  const y0 = low(rates, 1e3), y1 = Math.ceil(Math.log10(Math.max(...rates, ...tops)) * 2) / 2 + 0.1;
  const x = (value) => 50 + (Math.log10(value) - x0) / (x1 - x0) * 700;
  const y = (value) => 330 - (Math.log10(value) - y0) / (y1 - y0) * 310;
  for (let power = Math.ceil(x0); power <= x1; ++power) {
    shape(drawing, "line", {class: "axis", x1: x(10 ** power), x2: x(10 ** power), y1: 20, y2: 330});
    shape(drawing, "text", {x: x(10 ** power), y: 345, "text-anchor": "middle"}, `${10 ** power} FLOP/B`);
  }
  for (let power = Math.ceil(y0); power <= y1; ++power) {
    shape(drawing, "line", {class: "axis", x1: 50, x2: 750, y1: y(10 ** power), y2: y(10 ** power)});
    shape(drawing, "text", {x: 46, y: y(10 ** power) + 4, "text-anchor": "end"}, count(10 ** power));
  }
  const top = Math.max(...tops, 0);
  for (const limit of profile.limits.compute) {
    shape(drawing, "line", {class: "roof", x1: x(Math.max(10 ** x0, limit.operations_per_s / Math.max(...profile.limits.memory.map((level) => level.bytes_per_s)))), x2: 750,
      y1: y(limit.operations_per_s), y2: y(limit.operations_per_s)});
    shape(drawing, "text", {x: 748, y: y(limit.operations_per_s) - 3, "text-anchor": "end"}, limit.unit);
  }
  for (const level of profile.limits.memory) {
    const from = Math.max(10 ** x0, 10 ** y0 / level.bytes_per_s), to = top > 0 ? top / level.bytes_per_s : 10 ** x1;
    shape(drawing, "line", {class: "roof", x1: x(from), y1: y(from * level.bytes_per_s), x2: x(to), y2: y(to * level.bytes_per_s)});
    shape(drawing, "text", {x: x(from) + 4, y: y(from * level.bytes_per_s) - 4}, level.level);
  }
  for (const row of dots) {
    const kind = row.class === "compute" || row.class === "memory" ? row.class : "other";
    const dot = shape(drawing, "circle", {class: kind, cx: x(row.flops / row.bytes), cy: y(row.flops / row.time_us * 1e6),
      r: 3 + 22 * Math.sqrt(row.share), tabindex: 0, role: "button", "aria-label": `${row.name}, ${percent(row.share)}`});
    shape(dot, "title", {}, `${row.name}\n${percent(row.share)}, ${row.class ?? ""}`);
    dot.addEventListener("click", () => choose(row.index));
    dot.addEventListener("keydown", (event) => event.key === "Enter" && choose(row.index));
  }
}

function showAdvice() {
  for (const advice of profile.advice) {
    const item = element($("advice"), "li", "");
    element(item, "code", advice.command);
    element(item, "span", ` ${advice.of === "sample" ? "a sample" : "the run"} ${advice.speedup.toFixed(2)} x as fast, predicted${advice.at_most ? `, at most ${advice.at_most.toFixed(2)} x` : ""} (${advice.rule}). ${advice.evidence}`);
  }
  if (profile.advice.length === 0) element($("advice"), "li", "Nothing better is known.");
}

function showHead() {
  const measured = profile.measured;
  $("title").textContent = profile.engine;
  $("facts").textContent = `${time(measured.run_us)} a run, ${profile.level}, ${profile.limits.threads} threads` +
    (profile.sizes ? `; ${profile.sizes}${profile.sizes_chosen === "likely" ? " (likely ones)" : ""}` : "") +
    `; ${measured.passes} passes, timing took ${percent(measured.overhead)}`;
  if (measured.disturbed) element($("trust"), "li", "Hardly a pass was quiet: times are upper bounds, shares and classes may be off.");
  if (measured.others_share > 0.02) element($("trust"), "li", `Other programs had the CPU in ${percent(measured.others_share)} of the time.`);
  for (const note of measured.notes) element($("trust"), "li", note);
}

showHead();
showAdvice();
showRows();
$("by").addEventListener("change", showRows);
$("search").addEventListener("input", showRows);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== $("search")) {
    event.preventDefault();
    $("search").focus();
  }
});
