// The graph as things (nodes, groups, ports) in a tree, with the lines between them and their words.

const graph = JSON.parse(document.getElementById("graph").textContent);

// Characters that cannot be seen, or that turn the reading direction, as escapes: names come from whoever made the model.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;
const visible = (text) => String(text).replace(HIDDEN, (character) => "\\u" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0"));
const shortened = (text, most) => {
  const points = [...text];
  return points.length <= most ? text : points.slice(0, most / 2).join("") + "…" + points.slice(points.length - Math.floor(most / 2 - 1)).join("");
};
const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text, font) {
  ruler.font = font;
  return ruler.measureText(text).width;
}
// The text, shortened in its middle until it is at most so many pixels wide.
function fitted(text, room, font) {
  const width = textWidth(text, font);
  let most = Math.min([...text].length, 200), result = shortened(text, most);
  if (width > room) most = Math.min(most, Math.ceil(1.2 * most * room / width));
  for (result = shortened(text, most); most > 3 && ruler.measureText(result).width > room; result = shortened(text, --most));
  return result;
}
const lastPart = (name) => name.slice(name.lastIndexOf("/") + 1) || name;

function countText(count) {
  if (count === null || count === undefined) return "?";
  const units = ["", "k", "M", "G", "T", "P", "E"];
  let unit = 0;
  while (count >= 999.5 && unit < units.length - 1) { count /= 1000; ++unit; }
  return unit === 0 ? String(count) : `${count.toFixed(count < 9.995 ? 2 : count < 99.95 ? 1 : 0)} ${units[unit]}`;
}
const bytesText = (count) => countText(count) + (count < 1000 ? " B" : "B");
const timeText = (us) => Math.abs(us) < 1000 ? `${us.toFixed(2)} µs` : Math.abs(us) < 1e6 ? `${(us / 1e3).toFixed(2)} ms` : `${(us / 1e6).toFixed(2)} s`;
const atSize = (count, size) => count === null || typeof count === "number" ? count : count[size];
const typeText = (value) => visible(value.shape ? `${value.dtype} [${value.shape.join(", ")}]` : value.dtype);

// The sizes that counts marked "typical" and all estimates are for; empty where no size is free.
const sizesText = graph.symbols.filter((symbol) => symbol.of_input).map((symbol) => `${visible(symbol.name)}=${symbol.typical}`).join(", ");

function makeFacts() {
  const top = {id: "top", kind: "top", children: [], depth: 0};
  const groups = graph.groups.map((group, index) => ({id: `g${index}`, kind: "group", index, group, children: [], title: visible(group.title)}));
  const nodes = graph.nodes.map((node, index) => ({id: `n${index}`, kind: "node", index, node, title: visible(node.name || node.op), where: visible(node.where), what: visible(node.what)}));
  const port = (prefix, word) => (entry, index) => ({id: `${prefix}${index}`, kind: "port", index, word, value: entry.value, title: visible(entry.name)});
  const inputs = graph.inputs.map(port("i", "input")), outputs = graph.outputs.map(port("o", "output"));
  const adopt = (child, parent) => {
    child.parent = parent;
    child.depth = parent.depth + 1;
    parent.children.push(child);
  };
  inputs.forEach((input) => adopt(input, top));
  const placed = new Set();
  const place = (group) => {
    if (placed.has(group)) return;
    placed.add(group);
    const parent = group.group.parent < 0 ? top : groups[group.group.parent];
    if (parent !== top) place(parent);
    adopt(group, parent);
  };
  for (const node of nodes) {
    const parent = node.node.group < 0 ? top : groups[node.node.group];
    if (parent !== top) place(parent);
    adopt(node, parent);
  }
  outputs.forEach((output) => adopt(output, top));

  const makers = graph.values.map((value) => value.node === undefined ? null : nodes[value.node]);
  inputs.forEach((input) => { makers[input.value] = input; });
  const lines = [], readers = new Map();
  const join = (value, consumer) => {
    if (value < 0) return;
    if (!readers.has(value)) readers.set(value, []);
    if (!readers.get(value).includes(consumer)) readers.get(value).push(consumer);
    if (makers[value]) lines.push([makers[value], consumer]);
  };
  nodes.forEach((node) => node.node.inputs.forEach((value) => join(value, node)));
  outputs.forEach((output) => join(output.value, output));
  return {top, groups, nodes, inputs, outputs, makers, readers, lines, regions: graph.regions ?? []};
}

const facts = makeFacts();
const thingsById = new Map([...facts.groups, ...facts.nodes, ...facts.inputs, ...facts.outputs].map((thing) => [thing.id, thing]));

function nodesIn(thing) {
  return thing.kind === "node" ? [thing] : (thing.children ?? []).flatMap(nodesIn);
}

// What a node or group costs at the chosen sizes: {flops, bytes, us}.
function costOf(thing, size) {
  const cost = {flops: 0, bytes: 0, us: 0}, regions = new Set();
  for (const {node} of nodesIn(thing)) {
    cost.flops += atSize(node.flops, size) ?? 0;
    cost.bytes += atSize(node.bytes, size) ?? 0;
    if (node.region !== undefined) regions.add(node.region);
  }
  for (const region of regions) cost.us += facts.regions[region].us ?? 0;
  return cost;
}

// The kernel family of a region without its configuration.
const kernelFamily = (region) => visible(region.kernel).split("{")[0];

// Opens outer groups first, while about `most` boxes are shown.
function chooseOpen(most) {
  const open = new Set();
  let shown = facts.top.children.length, level = facts.top.children;
  while (level.length) {
    const next = [];
    for (const thing of level) {
      if (thing.kind === "group" && shown + thing.children.length <= most) {
        open.add(thing);
        shown += thing.children.length;
        next.push(...thing.children);
      }
    }
    level = next;
  }
  return open;
}

// Things whose words contain all of the query's, best first: whole names, then beginnings, then the rest.
function find(query, most) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const thing of thingsById.values()) {
    thing.words ??= wordsOf(thing).join("\n").toLowerCase();
    if (words.length && words.every((word) => thing.words.includes(word))) {
      const title = thing.title.toLowerCase(), all = words.join(" ");
      found.push({thing, rank: title === all ? 0 : lastPart(title).startsWith(all) ? 1 : title.includes(all) ? 2 : 3});
    }
  }
  found.sort((a, b) => a.rank - b.rank);
  return {count: found.length, things: found.slice(0, most).map(({thing}) => thing)};
}

function wordsOf(thing) {
  if (thing.kind !== "node") return [thing.title, thing.word ?? thing.group.kind];
  const node = thing.node, region = facts.regions[node.region];
  const parameters = node.inputs.filter((value) => value >= 0 && graph.values[value].kind === "parameter");
  return [node.op, node.what, node.name, ...node.names, ...node.from, node.module, node.source, ...parameters.map((value) => graph.values[value].name),
    ...(region ? [region.label, region.strategy, region.kernel] : [])].map(visible);
}
