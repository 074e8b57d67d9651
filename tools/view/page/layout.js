// The layered drawing of tools/view/Layers.cpp and Layout.cpp, for whatever is open at the moment.

const GAP_X = 24, GAP_Y = 34, DUMMY_WIDTH = 6, NODE_WIDTH = 190, NODE_HEIGHT = 40, PORT_HEIGHT = 28, PADDING = 16, HEADER = 24;

// Places `items` ({width, height}) so that each of `lines` ({from, to}, from < to) goes down; adds x, y and bends.
function layOutLayers(items, lines) {
  const cells = items.map((item) => ({width: item.width, middle: 0, layer: 0, before: [], behind: []}));
  for (const {from, to} of lines) {
    cells[from].behind.push(to);
    cells[to].before.push(from);
  }
  for (const cell of cells) {
    for (const other of cell.before) cell.layer = Math.max(cell.layer, cells[other].layer + 1);
  }
  for (const cell of cells.slice().reverse()) {
    if (!cell.before.length && cell.behind.length) cell.layer = Math.min(...cell.behind.map((other) => cells[other].layer)) - 1;
  }
  for (const cell of cells) { cell.before = []; cell.behind = []; }
  const connect = (from, to) => { cells[from].behind.push(to); cells[to].before.push(from); };
  const dummies = lines.map(({from, to}) => {
    const own = [];
    for (let layer = cells[from].layer + 1; layer < cells[to].layer; ++layer) {
      cells.push({width: DUMMY_WIDTH, middle: 0, layer, before: [], behind: []});
      connect(own.length ? own[own.length - 1] : from, cells.length - 1);
      own.push(cells.length - 1);
    }
    connect(own.length ? own[own.length - 1] : from, to);
    return own;
  });
  const layers = [];
  cells.forEach((cell, i) => (layers[cell.layer] ??= []).push(i));
  const sweeps = cells.length > 20000 ? 1 : 6;
  orderLayers(cells, layers, sweeps);
  placeMiddles(cells, layers, sweeps);
  return finishLayers(cells, layers, items, lines, dummies);
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

function finishLayers(cells, layers, items, lines, dummies) {
  const left = cells.reduce((least, cell) => Math.min(least, cell.middle - cell.width / 2), Infinity);
  const heights = layers.map(() => 0);
  items.forEach((item, i) => { heights[cells[i].layer] = Math.max(heights[cells[i].layer], item.height); });
  const tops = [];
  let y = 0;
  for (const height of heights) { tops.push(y); y += height + GAP_Y; }
  let right = 0;
  for (const cell of cells) {
    cell.middle -= left;
    right = Math.max(right, cell.middle + cell.width / 2);
  }
  items.forEach((item, i) => {
    item.x = cells[i].middle - item.width / 2;
    item.y = tops[cells[i].layer] + (heights[cells[i].layer] - item.height) / 2;
  });
  lines.forEach((line, i) => {
    line.bends = dummies[i].flatMap((dummy) => {
      const {middle, layer} = cells[dummy];
      return [[middle, tops[layer]], [middle, tops[layer] + heights[layer]]];
    });
  });
  return {width: right, height: Math.max(0, y - GAP_Y)};
}

// Draws the things of facts.js: {width, height, boxes: [{thing, x, y, width, height}], lines: [{from, to, points}]}.
function layOut(facts, open) {
  const isOpen = (thing) => thing === facts.top || open.has(thing);
  const shownFor = (thing) => {
    let shown = thing;
    for (let group = thing.parent; group; group = group.parent) {
      if (!isOpen(group)) shown = group;
    }
    return shown;
  };
  const linesIn = new Map(), joined = new Set();
  for (const [producer, consumer] of facts.lines) {
    const from = shownFor(producer), to = shownFor(consumer), key = `${from.id} ${to.id}`;
    if (from === to || joined.has(key)) continue;
    joined.add(key);
    let a = from, b = to;
    while (a.depth > b.depth) a = a.parent;
    while (b.depth > a.depth) b = b.parent;
    while (a.parent !== b.parent) { a = a.parent; b = b.parent; }
    if (!linesIn.has(a.parent)) linesIn.set(a.parent, []);
    linesIn.get(a.parent).push({a, b, from, to});
  }
  const draw = (group) => {
    const inner = new Map(), placeOf = new Map();
    const items = group.children.map((thing, i) => {
      placeOf.set(thing, i);
      if (!isOpen(thing)) return {width: NODE_WIDTH, height: thing.kind === "port" ? PORT_HEIGHT : NODE_HEIGHT};
      const drawn = draw(thing);
      inner.set(thing, drawn);
      return {width: Math.max(drawn.width + 2 * PADDING, NODE_WIDTH), height: drawn.height + HEADER + 1.5 * PADDING};
    });
    const lines = (linesIn.get(group) ?? []).map((line) => {
      const from = placeOf.get(line.a), to = placeOf.get(line.b);
      return {from: Math.min(from, to), to: Math.max(from, to), ends: line};
    });
    return {...layOutLayers(items, lines), group, items, lines, inner};
  };
  const boxes = [], lines = [], boxOf = new Map();
  const place = (drawn, x, y) => {
    drawn.items.forEach((item, i) => {
      const thing = drawn.group.children[i];
      const box = {thing, x: x + item.x, y: y + item.y, width: item.width, height: item.height, isOpen: drawn.inner.has(thing)};
      boxes.push(box);
      boxOf.set(thing, box);
      if (box.isOpen) {
        const inner = drawn.inner.get(thing);
        place(inner, box.x + (item.width - inner.width) / 2, box.y + HEADER + PADDING / 2);
      }
    });
    for (const {ends, bends} of drawn.lines) {
      const from = boxOf.get(ends.from), to = boxOf.get(ends.to);
      const start = [from.x + from.width / 2, from.y + from.height], end = [to.x + to.width / 2, to.y];
      const between = bends.map(([bendX, bendY]) => [x + bendX, y + bendY]);
      if (start[1] > end[1]) between.reverse();
      lines.push({from: ends.from, to: ends.to, points: [start, ...between, end]});
    }
  };
  const top = draw(facts.top);
  place(top, 0, 0);
  return {width: top.width, height: top.height, boxes, lines, boxOf};
}
