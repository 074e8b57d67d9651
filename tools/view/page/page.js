// What is shown and what people do. Only boxes and lines in sight are elements, so thousands of nodes scroll well.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 20, MOST_OPEN = [70, 40, 20, 10], LEAST_READABLE = 0.6, SIGHT = 300, FONT = "12px system-ui, sans-serif";
const view = document.getElementById("view"), drawing = document.getElementById("drawing"), search = document.getElementById("search");
const state = {open: new Set(), chosen: null, zoom: 1, size: "typical", layout: null};
const shown = new Map();
let waiting = false, shares = new Map();

function svg(tag, attributes, text) {
  const result = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) result.setAttribute(key, value);
  if (text !== undefined) result.textContent = text;
  return result;
}

// How much of the whole a box stands for: of the measured time where there is one, else of the arithmetic.
function shareOf(thing) {
  if (!shares.has(thing)) {
    const all = shares.get("all") ?? costOf(facts.top, state.size), cost = costOf(thing, state.size);
    shares.set("all", all);
    const alone = thing.kind === "node" && graph.totals.us !== undefined && nodesIn(thing.parent).length > 1 ? 0 : 1;
    shares.set(thing, graph.totals.us ? alone * cost.us / all.us : all.flops ? cost.flops / all.flops : 0);
  }
  return shares.get(thing);
}

function classOf({thing, isOpen}) {
  const kind = thing.kind === "node" ? thing.node.family : thing.kind;
  const region = thing.kind === "group" && thing.group.region >= 0 ? " region" : "";
  return `box ${kind}${isOpen ? " open" : ""}${region}${thing === state.chosen ? " chosen" : ""}`;
}

function detailOf(thing) {
  if (thing.kind === "node") return thing.node.outputs.length ? typeText(graph.values[thing.node.outputs[0]]) : "";
  if (thing.kind === "port") return thing.value < 0 ? "" : typeText(graph.values[thing.value]);
  const count = nodesIn(thing).length, nodes = count === 1 ? "1 node" : `${count} nodes`;
  const region = facts.regions[thing.group.region];
  return region?.kernel ? `${nodes} by ${kernelFamily(region)}` : nodes;
}

function boxElement(box) {
  const {thing, x, y, width, height, isOpen} = box;
  const title = thing.kind === "node" ? `${thing.where} ${thing.what}`.trim() : thing.title;
  const result = svg("g", {class: classOf(box), id: thing.id, role: "button", "aria-label": `${thing.kind} ${title}, ${detailOf(thing)}`, transform: `translate(${x} ${y})`});
  if (thing.kind === "group") result.setAttribute("aria-expanded", String(isOpen));
  result.append(svg("rect", {class: "face", width, height}), svg("title", {}, `${thing.title}\n${detailOf(thing)}`));
  const text = svg("text", {x: 9, y: thing.kind === "port" ? 18 : 16}), room = width - (thing.kind === "group" ? 38 : 18);
  if (thing.kind === "node") {
    // What it computes comes first where there is not room for both.
    const what = fitted(thing.what, room, `600 ${FONT}`), left = room - textWidth(what, `600 ${FONT}`) - 6;
    const where = thing.where && left > 20 ? fitted(thing.where, left, FONT) : "";
    text.append(svg("tspan", {}, where), svg("tspan", {class: "op", dx: where ? 6 : 0}, what));
  } else {
    text.append(svg("tspan", {class: "op"}, fitted(title, room, `600 ${FONT}`)));
  }
  result.append(text);
  if (thing.kind !== "port" && !isOpen) {
    result.append(svg("text", {class: "faint", x: 9, y: 31}, fitted(detailOf(thing), width - 18, FONT.replace("12", "10.5"))));
    const share = shareOf(thing);
    if (share > 0.002) result.append(svg("rect", {class: "bar", x: 1, y: height - 3, width: Math.max(2, share * (width - 2)), height: 2.5}));
  }
  if (thing.kind === "group") {
    const toggle = svg("g", {class: "toggle", transform: `translate(${width - 26} 0)`});
    toggle.append(svg("rect", {width: 26, height: 26}), svg("text", {x: 13, y: 18}, isOpen ? "−" : "+"));
    result.append(toggle);
  }
  return result;
}

// Upright at each point, so that lines leave and meet boxes at right angles.
function lineElement({from, to, points}) {
  let path = `M${points[0]}`;
  for (let i = 1; i < points.length; ++i) {
    const middle = (points[i - 1][1] + points[i][1]) / 2;
    path += `C${points[i - 1][0]} ${middle} ${points[i][0]} ${middle} ${points[i]}`;
  }
  return svg("path", {class: `line${from === state.chosen || to === state.chosen ? " chosen" : ""}`, d: path, "marker-end": "url(#tip)"});
}

function render() {
  waiting = false;
  const top = view.scrollTop / state.zoom - MARGIN - SIGHT, bottom = top + view.clientHeight / state.zoom + 2 * SIGHT;
  const left = (view.scrollLeft - parseFloat(getComputedStyle(drawing).marginLeft)) / state.zoom - MARGIN - SIGHT, right = left + view.clientWidth / state.zoom + 2 * SIGHT;
  const inSight = new Set();
  const keep = (key, layer, make) => {
    inSight.add(key);
    if (!shown.has(key)) {
      shown.set(key, make());
      layers[layer].append(shown.get(key));
    }
  };
  for (const box of state.layout.boxes) {
    if (box.y < bottom && box.y + box.height > top && box.x < right && box.x + box.width > left) keep(box, box.isOpen ? 0 : 2, () => boxElement(box));
  }
  for (const line of state.layout.lines) {
    const {minX, maxX, minY, maxY} = line.extent ??= extentOf(line.points);
    if (minY < bottom && maxY > top && minX < right && maxX > left) keep(line, 1, () => lineElement(line));
  }
  for (const [key, drawn] of shown) {
    if (!inSight.has(key)) {
      drawn.remove();
      shown.delete(key);
    }
  }
}

function extentOf(points) {
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  return {minX: Math.min(...xs), maxX: Math.max(...xs), minY: Math.min(...ys), maxY: Math.max(...ys)};
}

function requestRender() {
  if (!waiting) {
    waiting = true;
    requestAnimationFrame(render);
  }
}

function redraw() {
  shown.forEach((drawn) => drawn.remove());
  shown.clear();
  render();
}

function resize() {
  const width = state.layout.width + 2 * MARGIN, height = state.layout.height + 2 * MARGIN;
  for (const [key, value] of Object.entries({viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`, width: width * state.zoom, height: height * state.zoom})) drawing.setAttribute(key, value);
}

// Lays out again; `still` stays where it is on the screen.
function relayout(still) {
  const before = still && state.layout?.boxOf.get(still);
  const old = before && {x: before.x, y: before.y};
  state.layout = layOut(facts, state.open);
  resize();
  const after = still && state.layout.boxOf.get(still);
  if (old && after) {
    view.scrollTop += (after.y - old.y) * state.zoom;
    view.scrollLeft += (after.x - old.x) * state.zoom;
  }
  redraw();
}

function setOpen(group, open) {
  if (open) state.open.add(group);
  else nodesAndGroups(group).forEach((thing) => state.open.delete(thing));
  relayout(group);
  say(`${group.title} ${open ? "unfolded" : "folded"}, ${state.layout.boxes.length} boxes`);
}

const nodesAndGroups = (thing) => [thing, ...(thing.children ?? []).flatMap(nodesAndGroups)];
const say = (text) => { document.getElementById("said").textContent = text; };

function zoomTo(zoom) {
  const x = (view.scrollLeft + view.clientWidth / 2) / state.zoom, y = (view.scrollTop + view.clientHeight / 2) / state.zoom;
  state.zoom = Math.min(3, Math.max(0.05, zoom));
  resize();
  view.scrollTo(x * state.zoom - view.clientWidth / 2, y * state.zoom - view.clientHeight / 2);
  redraw();
}

// Chooses a thing, opens what hides it and, with `go`, brings it into sight.
function choose(thing, go) {
  let hidden = false;
  for (let group = thing?.parent; group?.kind === "group"; group = group.parent) {
    hidden ||= !state.open.has(group);
    state.open.add(group);
  }
  state.chosen = thing;
  if (hidden) relayout(null);
  else redraw();
  if (thing) {
    drawing.setAttribute("aria-activedescendant", thing.id);
    say(`${thing.kind} ${thing.title}`);
    if (go) bring(thing);
  }
  showPanel(thing);
}

function bring(thing) {
  const {x, y, width, height, isOpen} = state.layout.boxOf.get(thing), zoom = state.zoom;
  view.scrollTo((x + MARGIN + width / 2) * zoom - view.clientWidth / 2, (y + MARGIN) * zoom - (isOpen ? 40 : view.clientHeight / 2 - height * zoom / 2));
  render();
}

// Where an arrow key leads: along a line, or to the neighbour in the row.
function neighbour(key) {
  const box = state.layout.boxOf.get(state.chosen);
  if (!box) return state.layout.boxes[0]?.thing;
  const along = state.layout.lines.find((line) => key === "ArrowDown" ? line.from === state.chosen : key === "ArrowUp" && line.to === state.chosen);
  if (along) return key === "ArrowDown" ? along.to : along.from;
  const middle = ({x, y, width, height}) => [x + width / 2, y + height / 2];
  const [x, y] = middle(box), [dx, dy] = {ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0]}[key];
  let best = null, least = Infinity;
  for (const other of state.layout.boxes) {
    const [ox, oy] = middle(other), forward = (ox - x) * dx + (oy - y) * dy, aside = Math.abs((ox - x) * dy) + Math.abs((oy - y) * dx);
    if (other !== box && forward > 1 && forward + 3 * aside < least) [best, least] = [other.thing, forward + 3 * aside];
  }
  return best;
}

function onKey(event) {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !isTyping) {
    search.focus();
  } else if (event.key === "Escape") {
    search.value = "";
    choose(null, false);
    drawing.focus({preventScroll: true});
  } else if (event.target === drawing && event.key.startsWith("Arrow")) {
    const next = neighbour(event.key);
    if (next) choose(next, true);
  } else if (event.target === drawing && event.key === " " && state.chosen?.kind === "group") {
    setOpen(state.chosen, !state.open.has(state.chosen));
    showPanel(state.chosen);
  } else if (event.target === drawing && event.key === "Enter") {
    panel.focus();
  } else if (!isTyping && !event.ctrlKey && !event.metaKey && (event.key === "+" || event.key === "-")) {
    zoomTo(state.zoom * (event.key === "+" ? 1.25 : 0.8));
  } else {
    return;
  }
  event.preventDefault();
}

function onClick(event) {
  const box = event.target.closest?.(".box");
  drawing.focus({preventScroll: true});
  if (!box) return;
  const thing = thingsById.get(box.id);
  if (event.target.closest(".toggle") || (event.detail === 2 && thing.kind === "group")) setOpen(thing, !state.open.has(thing));
  choose(thing, false);
}

// With a mouse the paper can be dragged; fingers scroll by themselves.
function onDrag(event) {
  if (event.pointerType !== "mouse" || event.button !== 0 || event.target.closest(".box:not(.open)")) return;
  const start = {x: event.clientX, y: event.clientY, left: view.scrollLeft, top: view.scrollTop};
  const move = (moved) => {
    view.classList.add("dragged");
    view.scrollTo(start.left + start.x - moved.clientX, start.top + start.y - moved.clientY);
  };
  const stop = () => {
    view.classList.remove("dragged");
    removeEventListener("pointermove", move);
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", stop, {once: true});
}

// The zoom at which all of the drawing is in the window.
const fittingZoom = () => Math.min(1, view.clientWidth / (state.layout.width + 2 * MARGIN), view.clientHeight / (state.layout.height + 2 * MARGIN));

function fit() {
  zoomTo(fittingZoom());
  view.scrollTo(0, 0);
}

// Opens as much as can be read when all of it is in the window.
function openToFit() {
  for (const most of MOST_OPEN) {
    state.open = chooseOpen(most);
    state.layout = layOut(facts, state.open);
    if (fittingZoom() >= LEAST_READABLE) break;
  }
  relayout(null);
  fit();
}

function unfoldOneLevel() {
  const folded = state.layout.boxes.filter(({thing, isOpen}) => thing.kind === "group" && !isOpen).map(({thing}) => thing);
  const depth = Math.min(...folded.map((thing) => thing.depth));
  folded.filter((thing) => thing.depth === depth).forEach((thing) => state.open.add(thing));
  relayout(state.chosen);
  say(`${state.layout.boxes.length} boxes`);
}

function start() {
  const totals = graph.totals;
  const showTotals = () => {
    const parts = [`${totals.nodes} nodes`, `${countText(atSize(totals.flops, state.size))} FLOPs`, `${bytesText(atSize(totals.bytes, state.size))} moved`, `${bytesText(totals.parameter_bytes)} of parameters`];
    if (graph.level) parts.unshift(visible(graph.level));
    if (sizesText && state.size === "typical") parts.push(`at ${sizesText}`);
    if (totals.us !== undefined) parts.push(`${timeText(totals.us)} measured`);
    else if (facts.regions.length) parts.push(`about ${timeText(facts.regions.reduce((sum, region) => sum + (region.cost.us ?? 0), 0))} estimated`);
    document.getElementById("totals").textContent = parts.join(" · ");
  };
  document.getElementById("title").textContent = visible(graph.title);
  document.getElementById("size-label").hidden = graph.symbols.length === 0;
  document.querySelector("#size [value=typical]").textContent = sizesText || "likely";
  document.getElementById("size").onchange = (event) => {
    state.size = event.target.value;
    shares = new Map();
    showTotals();
    choose(state.chosen, false);
  };
  document.getElementById("fold").onclick = () => { state.open.clear(); choose(null, false); relayout(null); fit(); };
  document.getElementById("unfold").onclick = unfoldOneLevel;
  document.getElementById("smaller").onclick = () => zoomTo(state.zoom * 0.8);
  document.getElementById("larger").onclick = () => zoomTo(state.zoom * 1.25);
  document.getElementById("fit").onclick = fit;
  search.oninput = () => search.value.trim() ? panel.replaceChildren(...resultsPanel(search.value)) : showPanel(state.chosen);
  search.onkeydown = (event) => { if (event.key === "Enter") panel.querySelector("#results button")?.click(); };
  addEventListener("keydown", onKey);
  drawing.addEventListener("click", onClick);
  view.addEventListener("pointerdown", onDrag);
  view.addEventListener("scroll", requestRender, {passive: true});
  view.addEventListener("wheel", (event) => {
    if (event.ctrlKey) {
      event.preventDefault();
      zoomTo(state.zoom * Math.exp(-event.deltaY / 300));
    }
  }, {passive: false});
  addEventListener("resize", requestRender);
  const tip = svg("marker", {id: "tip", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto"});
  tip.append(svg("path", {d: "M0 0L8 4L0 8z", fill: "context-stroke"}));
  drawing.append(tip, ...layers);
  showTotals();
  openToFit();
  showPanel(null);
}

const layers = [0, 1, 2].map(() => svg("g", {}));
start();
