// What the version at the alias was made from and what was made from it, as a graph: from left to right, an arrow from each to what was made of it.

const kBox = {width: 190, height: 40, gapX: 60, gapY: 14};
const lineage = {of: ""};

function svgOf(name, attributes = {}, ...children) {
  const element = document.createElementNS(kSvg, name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.append(...children);
  return element;
}

/** How far each version is to the right: one more than the furthest that it was made from. */
function levelsOf({nodes, edges}) {
  const levels = new Map(nodes.map((node) => [node.version, 0]));
  for (let round = 0, isMoved = true; isMoved && round < nodes.length; ++round) {
    isMoved = false;
    for (const {from, to} of edges) {
      if (levels.has(from) && levels.has(to) && levels.get(to) <= levels.get(from)) {
        levels.set(to, levels.get(from) + 1);
        isMoved = true;
      }
    }
  }
  return levels;
}

function placesOf(graph) {
  const levels = levelsOf(graph), rows = new Map(), places = new Map();
  for (const {version} of graph.nodes) {
    const level = levels.get(version), row = rows.get(level) ?? 0;
    rows.set(level, row + 1);
    places.set(version, {x: 1 + level * (kBox.width + kBox.gapX), y: 1 + row * (kBox.height + kBox.gapY)});
  }
  return {places, width: (Math.max(...rows.keys()) + 1) * (kBox.width + kBox.gapX) - kBox.gapX + 2, height: Math.max(...rows.values()) * (kBox.height + kBox.gapY) - kBox.gapY + 2};
}

function buildLine({from, to, relation}, places) {
  const start = places.get(from), end = places.get(to);
  if (!start || !end) {
    return [];
  }
  const x1 = start.x + kBox.width, y1 = start.y + kBox.height / 2, y2 = end.y + kBox.height / 2, middle = (x1 + end.x) / 2;
  return [svgOf("path", {d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${end.x - 2} ${y2}`, "marker-end": "url(#arrow)"}, svgOf("title", {}, visible(`${from} to ${to}: ${relation}`)))];
}

function buildBox(node, {x, y}, isShown) {
  const state = [node.kind, ...(node.deleted ? ["deleted"] : []), ...node.aliases.map((alias) => `@${alias}`)].map(visible).join(" ");
  return svgOf("g", {class: isShown ? "shown" : ""}, svgOf("rect", {x, y, width: kBox.width, height: kBox.height, rx: 6}),
    svgOf("text", {x: x + 9, y: y + 17}, visible(node.version).slice(0, 28)), svgOf("text", {x: x + 9, y: y + 32, class: "state"}, state.slice(0, 32)), svgOf("title", {}, visible(node.version)));
}

function showGraph(graph) {
  const {places, width, height} = placesOf(graph), words = graph.edges.map(({from, to, relation}) => `${to} has ${from} as ${relation}`);
  const arrow = svgOf("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto"}, svgOf("path", {d: "M0 0L8 4L0 8Z"}));
  const svg = svgOf("svg", {width, height, role: "img", "aria-label": visible(words.join("; ") || "It names no other version, and no other names it.")}, svgOf("defs", {}, arrow),
    ...graph.edges.flatMap((edge) => buildLine(edge, places)), ...graph.nodes.map((node, i) => buildBox(node, places.get(node.version), i === 0)));
  byId("lineage").replaceChildren(svg);
  setText(byId("lineage-info"), graph.cut ? "There are more versions than are shown." : "");
}

/** Asked once for each version that the alias is at, and only where a person looks. */
async function askLineage() {
  const of = `${aliasText()} ${registry.shown?.version ?? 0}`;
  if (!byId("lineage-details").open || lineage.of === of || !registry.shown?.version) {
    return;
  }
  lineage.of = of;
  try {
    showGraph(await ask(registryPath("lineage")));
  } catch (error) {
    lineage.of = "";
    setText(byId("lineage-info"), visible(error.message));
  }
}
