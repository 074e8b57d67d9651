// The layered drawing of tools/view/Layers.cpp and Layout.cpp, for whatever is open at the moment.

const GAP_X = 24, GAP_Y = 34, GAP_GATE = 18, DUMMY_WIDTH = 6, NODE_WIDTH = 190, NODE_HEIGHT = 40, PORT_HEIGHT = 28, PADDING = 16, HEADER = 24, GATE_WIDTH = 6;

// Places `items` ({width, height, place}) so that each of `lines` ({from, to}, from < to) goes down; adds x, y and
// bends. Items of the places "first" and "last" are where lines enter and leave the whole.
function layOutLayers(items, lines) {
  const cells = items.map((item) => ({width: item.width, middle: 0, layer: 0, before: [], behind: []}));
  for (const {from, to} of lines) {
    cells[from].behind.push(to);
    cells[to].before.push(from);
  }
  const hasFirst = items.some((item) => item.place === "first");
  let last = 0;
  cells.forEach((cell, i) => {
    cell.layer = hasFirst && items[i].place !== "first" ? 1 : 0;
    for (const other of cell.before) cell.layer = Math.max(cell.layer, cells[other].layer + 1);
    last = Math.max(last, cell.layer + (items[i].place === "last" ? 0 : 1));
  });
  for (let i = items.length - 1; i >= 0; --i) {
    const cell = cells[i];
    if (items[i].place === "last") cell.layer = last;
    else if (!items[i].place && !cell.before.length && cell.behind.length) cell.layer = Math.min(...cell.behind.map((other) => cells[other].layer)) - 1;
  }
  for (const cell of cells) { cell.before = []; cell.behind = []; }
  const connect = (from, to) => { cells[from].behind.push(to); cells[to].before.push(from); };
  const stems = items.map(() => []);
  for (const {from, to} of lines) {
    const stem = stems[from], first = cells[from].layer + 1, end = cells[to].layer;
    while (first + stem.length < end) {
      cells.push({width: DUMMY_WIDTH, middle: 0, layer: first + stem.length, before: [], behind: []});
      connect(stem.length ? stem[stem.length - 1] : from, cells.length - 1);
      stem.push(cells.length - 1);
    }
    connect(end > first ? stem[end - first - 1] : from, to);
  }
  const layers = [];
  cells.forEach((cell, i) => (layers[cell.layer] ??= []).push(i));
  const sweeps = cells.length > 20000 ? 1 : 6;
  orderLayers(cells, layers, sweeps);
  placeMiddles(cells, layers, sweeps);
  return finishLayers(cells, layers, items, lines, stems);
}

function orderLayers(cells, layers, sweeps) {
  const number = (layer) => layer.forEach((cell, i) => { cells[cell].rank = i - layer.length / 2; });
  const sortBy = (layer, side) => {
    for (const cell of layer) {
      const others = cells[cell][side];
      cells[cell].key = others.length ? others.reduce((sum, other) => sum + cells[other].rank, 0) / others.length : cells[cell].rank;
    }
    layer.sort((a, b) => cells[a].key - cells[b].key);
    number(layer);
  };
  layers.forEach(number);
  for (let sweep = 0; sweep < sweeps; ++sweep) {
    for (let i = 1; i < layers.length; ++i) sortBy(layers[i], "before");
    for (let i = layers.length - 2; i >= 0; --i) sortBy(layers[i], "behind");
  }
}

// Items that would overlap form a block, which stands at the mean of its wishes.
function settle(cells, layer, wishes) {
  const blocks = [], offsets = [];
  let offset = 0;
  layer.forEach((cell, i) => {
    const half = cells[cell].width / 2;
    offset += i ? half + GAP_X : 0;
    offsets.push(offset);
    offset += half;
    blocks.push({sum: wishes[i] - offsets[i], count: 1});
    while (blocks.length > 1) {
      const [a, b] = blocks.slice(-2);
      if (a.sum / a.count <= b.sum / b.count) break;
      a.sum += b.sum;
      a.count += b.count;
      blocks.pop();
    }
  });
  let next = 0;
  for (const {sum, count} of blocks) {
    for (let i = 0; i < count; ++i, ++next) cells[layer[next]].middle = sum / count + offsets[next];
  }
}

function placeMiddles(cells, layers, sweeps) {
  const pull = (layer, side) => settle(cells, layer, layer.map((cell) => {
    const others = cells[cell][side];
    return others.length ? others.reduce((sum, other) => sum + cells[other].middle, 0) / others.length : cells[cell].middle;
  }));
  for (const layer of layers) pull(layer, "before");
  for (let sweep = 0; sweep < sweeps; ++sweep) {
    for (let i = layers.length - 2; i >= 0; --i) pull(layers[i], "behind");
    for (let i = 1; i < layers.length; ++i) pull(layers[i], "before");
  }
}

function finishLayers(cells, layers, items, lines, stems) {
  const left = cells.reduce((least, cell) => Math.min(least, cell.middle - cell.width / 2), Infinity);
  const heights = layers.map(() => 0);
  items.forEach((item, i) => { heights[cells[i].layer] = Math.max(heights[cells[i].layer], item.height); });
  const tops = [];
  let y = 0;
  heights.forEach((height, i) => {
    tops.push(y);
    y += height + (i + 1 === heights.length ? 0 : height && heights[i + 1] ? GAP_Y : GAP_GATE);
  });
  let right = 0;
  for (const cell of cells) {
    cell.middle -= left;
    right = Math.max(right, cell.middle + cell.width / 2);
  }
  items.forEach((item, i) => {
    item.x = cells[i].middle - item.width / 2;
    item.y = tops[cells[i].layer] + (heights[cells[i].layer] - item.height) / 2;
  });
  for (const line of lines) {
    const length = cells[line.to].layer - cells[line.from].layer - 1;
    line.bends = stems[line.from].slice(0, length).flatMap((dummy) => {
      const {middle, layer} = cells[dummy];
      return [[middle, tops[layer]], [middle, tops[layer] + heights[layer]]];
    });
  }
  return {width: right, height: y};
}

// The lines between what is visible, and by group their stretches: between two children, or from or to the border (null).
function findStretches(facts, shownFor) {
  const stretches = new Map(), joints = [], joined = new Set();
  const add = (group, joint, from, to) => {
    if (!stretches.has(group)) stretches.set(group, []);
    stretches.get(group).push({joint, from, to});
  };
  for (const [producer, consumer] of facts.lines) {
    const from = shownFor(producer), to = shownFor(consumer), key = `${from.id} ${to.id}`;
    if (from === to || joined.has(key)) continue;
    joined.add(key);
    const joint = {from, to, parts: []};
    joints.push(joint);
    let a = from, b = to;
    const leave = () => { add(a.parent, joint, a, null); a = a.parent; };
    const enter = () => { add(b.parent, joint, null, b); b = b.parent; };
    while (a.depth > b.depth) leave();
    while (b.depth > a.depth) enter();
    while (a.parent !== b.parent) { leave(); enter(); }
    add(a.parent, joint, a, b);
  }
  return {stretches, joints};
}

// Draws the things of facts.js: {width, height, boxes: [{thing, x, y, width, height}], lines: [{from, to, points}]}.
function layOut(facts, open) {
  const isOpen = (thing) => thing === facts.top || open.has(thing);
  const {stretches, joints} = findStretches(facts, (thing) => {
    let shown = thing;
    for (let group = thing.parent; group; group = group.parent) {
      if (!isOpen(group)) shown = group;
    }
    return shown;
  });
  const boxes = [], boxOf = new Map();
  place(draw(facts.top, stretches, isOpen), 0, 0, boxes, boxOf);
  const lines = joints.map(({from, to, parts}) => {
    const start = boxOf.get(from), end = boxOf.get(to);
    parts.sort((a, b) => a.order - b.order);
    return {from, to, points: [[start.x + start.width / 2, start.y + start.height], ...parts.flatMap(({points}) => points), [end.x + end.width / 2, end.y]]};
  });
  const top = boxes.top;
  return {width: top.width, height: top.height, boxes, lines, boxOf};
}

// The children of a group, each behind those that it reads, as far as there is no cycle.
function sortChildren(group, own) {
  const readers = new Map(group.children.map((thing) => [thing, []])), missing = new Map(group.children.map((thing) => [thing, 0]));
  for (const {from, to} of own) {
    if (!from || !to) continue;
    readers.get(from).push(to);
    missing.set(to, missing.get(to) + 1);
  }
  const rank = new Map(group.children.map((thing, i) => [thing, i])), placed = new Set(), ready = group.children.filter((thing) => !missing.get(thing));
  let next = 0;
  while (placed.size < group.children.length) {
    while (!ready.length && placed.has(group.children[next])) ++next;
    const thing = ready.length ? ready.shift() : group.children[next];
    if (placed.has(thing)) continue;
    placed.add(thing);
    for (const reader of readers.get(thing)) {
      missing.set(reader, missing.get(reader) - 1);
      if (missing.get(reader) || placed.has(reader)) continue;
      const at = ready.findIndex((other) => rank.get(other) > rank.get(reader));
      ready.splice(at < 0 ? ready.length : at, 0, reader);
    }
  }
  return [...placed];
}

// One open group, relative to its upper left corner. Lines of one beginning share a gate at the border.
function draw(group, stretches, isOpen) {
  const items = [], placeOf = new Map(), inner = new Map(), own = stretches.get(group) ?? [];
  const addGates = (side, place) => {
    const gates = new Map();
    for (const stretch of own) {
      if (stretch[side] === null && !gates.has(stretch.joint.from)) {
        gates.set(stretch.joint.from, items.length);
        items.push({width: GATE_WIDTH, height: 0, place});
      }
    }
    return gates;
  };
  const entries = addGates("from", "first");
  for (const thing of sortChildren(group, own)) {
    placeOf.set(thing, items.length);
    if (isOpen(thing)) {
      const drawn = draw(thing, stretches, isOpen);
      inner.set(thing, drawn);
      items.push({width: Math.max(drawn.width + 2 * PADDING, NODE_WIDTH), height: drawn.height + HEADER + 1.5 * PADDING});
    } else {
      items.push({width: NODE_WIDTH, height: thing.kind === "port" ? PORT_HEIGHT : NODE_HEIGHT});
    }
  }
  const exits = addGates("to", "last");
  const lines = own.map((stretch) => {
    const from = stretch.from ? placeOf.get(stretch.from) : entries.get(stretch.joint.from);
    const to = stretch.to ? placeOf.get(stretch.to) : exits.get(stretch.joint.from);
    // A group may both feed and read another one; such a line runs upwards.
    return {from: Math.min(from, to), to: Math.max(from, to), isUpward: from > to, stretch};
  });
  return {...layOutLayers(items, lines), group, items, lines, inner, placeOf};
}

function place(drawn, x, y, boxes, boxOf) {
  if (drawn.group.kind === "top") boxes.top = drawn;
  for (const thing of drawn.group.children) {
    const item = drawn.items[drawn.placeOf.get(thing)], inner = drawn.inner.get(thing);
    const box = {thing, x: x + item.x, y: y + item.y, width: item.width, height: item.height, isOpen: inner !== undefined};
    boxes.push(box);
    boxOf.set(thing, box);
    if (inner) place(inner, box.x + (item.width - inner.width) / 2, box.y + HEADER + PADDING / 2, boxes, boxOf);
  }
  for (const {from, to, bends, isUpward, stretch} of drawn.lines) {
    const points = bends.map(([bendX, bendY]) => [x + bendX, y + bendY]);
    if (!stretch.from) points.unshift([x + drawn.items[from].x + GATE_WIDTH / 2, y]);
    if (!stretch.to) points.push([x + drawn.items[to].x + GATE_WIDTH / 2, y + drawn.height]);
    if (isUpward) points.reverse();
    stretch.joint.parts.push({order: !stretch.from ? drawn.group.depth : !stretch.to ? -drawn.group.depth : 0, points});
  }
}
