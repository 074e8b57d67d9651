// The words about what is chosen. All text goes through textContent: names are never markup.

const panel = document.getElementById("panel");

function element(tag, properties, ...children) {
  const result = Object.assign(document.createElement(tag), properties);
  result.append(...children.filter((child) => child !== null && child !== undefined));
  return result;
}

const link = (thing, text) => element("button", {type: "button", className: "link", textContent: text ?? thing.title, onclick: () => choose(thing, true)});
const section = (title, ...children) => [element("h3", {textContent: title}), ...children];

// Pairs of a word and a text, node or list of them; pairs without content are left out.
function table(pairs) {
  const list = element("dl", {});
  for (const [word, content] of pairs) {
    const parts = [content].flat().filter((part) => part !== undefined && part !== null && part !== "");
    if (parts.length) list.append(element("dt", {textContent: word}), element("dd", {}, ...parts.flatMap((part, i) => i ? [document.createElement("br"), part] : [part])));
  }
  return list;
}

function rangeText(count, format) {
  if (count === null || typeof count === "number") return format(count);
  return `${format(atSize(count, state.size))}  (${format(count.least)} to ${format(count.most)})`;
}

const numberText = (number) => String(Number(number.toPrecision(4)));
// ", −0.31 to 0.42": the least and the largest element.
const rangeOf = (value) => value.range ? `, ${numberText(value.range[0])} to ${numberText(value.range[1])}` : "";

function valueLine(id) {
  if (id < 0) return element("li", {className: "faint", textContent: "left out"});
  const value = graph.values[id], maker = facts.makers[id];
  const line = element("li", {}, element("code", {textContent: typeText(value)}), " ");
  if (maker) line.append("from ", link(maker));
  else line.append(`${value.kind} `, element("bdi", {textContent: visible(value.name)}), value.bytes ? ` (${bytesText(atSize(value.bytes, state.size))}${rangeOf(value)})` : "");
  return line;
}

function outputLine(id) {
  const line = element("li", {}, element("code", {textContent: typeText(graph.values[id])}));
  const readers = facts.readers.get(id) ?? [];
  readers.slice(0, 12).forEach((reader, i) => line.append(i ? ", " : " to ", link(reader)));
  if (readers.length > 12) line.append(` and ${readers.length - 12} more`);
  return line;
}

const costText = (cost) => `${timeText(cost.us ?? 0)}: ${bytesText(cost.bytes)} moved, ${countText(Math.round(cost.work ?? 0))} operations, ` +
  `${cost.launches} launch${cost.launches === 1 ? "" : "es"}` + (cost.registers ? `, ${cost.registers} registers, occupancy ${cost.occupancy} %` : "");

function apartLine(entry) {
  const other = facts.nodes.find(({node}) => node.region === entry.region);
  const details = element("details", {}, element("summary", {textContent: `${visible(entry.producer)} → ${visible(entry.consumer)}`}),
    element("p", {textContent: `${entry.rule}: ${visible(entry.why)}`}));
  if (entry.decided) details.append(element("p", {textContent: `decided by ${visible(entry.decided)}`}));
  const saved = entry.apart_us - entry.fused_us;
  const verdict = saved > 0 ? `one kernel would save ${timeText(saved)} by the estimate, not taken` : `one kernel would take ${timeText(-saved)} more`;
  details.append(element("p", {textContent: `apart ${timeText(entry.apart_us)}, as one ${timeText(entry.fused_us)}: ${verdict}`}));
  if (other) details.append(link(other, "Show the neighbour"));
  return details;
}

function memoryLine(row) {
  const place = row.space === "arena" ? `arena at ${row.offset_at_smallest}, ${bytesText(row.bytes_at_smallest)} at the smallest sizes, used by instructions ${row.first} to ${row.last}` : row.space;
  const over = row.in_place?.length ? `; written over by ${row.in_place.map(visible).join(", ")}` : "";
  return element("li", {textContent: `buffer ${row.buffer}: ${visible(row.bytes)} bytes, ${place}${over}`});
}

function regionSections(index) {
  const region = facts.regions[index];
  const members = facts.nodes.filter(({node}) => node.region === index);
  const runs = region.instructions.map((row) => visible(row.kind) + (row.grid ? ` over ${visible(row.grid)}` : ""));
  const weights = region.instructions.reduce((sum, row) => Math.max(sum, row.weights_bytes ?? 0), 0);
  return [
    ...section(`Region ${index}`, element("p", {textContent: visible(region.reason)}), table([
      ["strategy", `${visible(region.strategy)} on ${visible(region.target)}`],
      ["kernel", region.kernel ? element("code", {textContent: visible(region.kernel)}) : ""],
      ["runs as", runs],
      ["estimate", costText(region.cost) + (sizesText ? ` (at ${sizesText})` : "")],
      ["measured", region.us === undefined ? "" : timeText(region.us)],
      ["weights", weights ? bytesText(weights) : ""],
      ["holds", members.map((member) => link(member, `${member.where} ${member.what}`.trim()))],
    ])),
    ...(region.memory.length ? section("Memory that it writes", element("ul", {}, ...region.memory.map(memoryLine))) : []),
    ...(region.apart.length ? section(`${region.apart.length} neighbours not fused`, ...region.apart.map(apartLine)) : []),
  ];
}

function nodePanel(thing) {
  const node = thing.node;
  return [
    element("h2", {textContent: thing.what}), element("p", {textContent: visible(node.name)}),
    table([
      ["in the model", node.from.map(visible).join(", ")],
      ["stands for", node.names.length > 1 ? node.names.map((name) => element("bdi", {textContent: visible(name)})) : ""],
      ["within", thing.parent.kind === "group" ? modulePath(thing) : ""],
      ["source", node.source ? element("code", {textContent: visible(node.source)}) : ""],
      ["FLOPs", rangeText(node.flops, countText)], ["", typeof node.flops === "object" && node.flops ? element("code", {textContent: visible(node.flops.formula)}) : ""],
      ["bytes moved", rangeText(node.bytes, bytesText)], ["", typeof node.bytes === "object" && node.bytes ? element("code", {textContent: visible(node.bytes.formula)}) : ""],
    ]),
    ...section("Inputs", element("ul", {}, ...node.inputs.map(valueLine))),
    ...section("Outputs", element("ul", {}, ...node.outputs.map(outputLine))),
    ...(Object.keys(node.attributes).length ? section("Attributes", table(Object.entries(node.attributes).map(([key, value]) => [visible(key), visible(value)]))) : []),
    ...(node.precision?.length ? section("Precision", element("ul", {}, ...node.precision.map((text) => element("li", {textContent: visible(text)})))) : []),
    ...(node.region !== undefined ? regionSections(node.region) : facts.regions.length ? section("Region", element("p", {textContent: "none: it costs nothing at run time, or is done at compile time"})) : []),
  ];
}

function modulePath(thing) {
  const path = [];
  for (let group = thing.parent; group.kind === "group"; group = group.parent) path.unshift(link(group));
  return element("span", {}, ...path.flatMap((part, i) => i ? [" / ", part] : [part]));
}

function groupPanel(thing) {
  const cost = costOf(thing, state.size), isOpen = state.open.has(thing);
  const toggle = element("button", {type: "button", textContent: isOpen ? "Fold" : "Unfold", onclick: () => { setOpen(thing, !state.open.has(thing)); choose(thing, false); }});
  return [
    element("h2", {textContent: thing.title}), element("p", {className: "faint", textContent: thing.group.kind}), element("p", {}, toggle),
    table([["within", thing.parent.kind === "group" ? modulePath(thing) : ""], ["nodes", String(nodesIn(thing).length)], ["FLOPs", countText(cost.flops)], ["bytes moved", bytesText(cost.bytes)], ["measured", cost.us ? timeText(cost.us) : ""]]),
    ...(thing.group.region >= 0 ? regionSections(thing.group.region) : section("Holds", element("ul", {}, ...thing.children.slice(0, 100).map((child) => element("li", {}, link(child)))))),
  ];
}

function portPanel(thing) {
  return [
    element("h2", {textContent: thing.title}), element("p", {className: "faint", textContent: `${thing.word} of the graph`}),
    element("ul", {}, thing.word === "input" ? outputLine(thing.value) : valueLine(thing.value)),
  ];
}

function summaryPanel() {
  const heavy = facts.nodes.map((thing) => ({thing, flops: atSize(thing.node.flops, state.size) ?? 0})).sort((a, b) => b.flops - a.flops).slice(0, 8);
  const slow = facts.regions.map((region, index) => ({region, index})).filter(({region}) => region.us !== undefined).sort((a, b) => b.region.us - a.region.us).slice(0, 8);
  const firstOf = (index) => facts.nodes.find(({node}) => node.region === index);
  const parameters = graph.values.filter((value) => value.kind === "parameter");
  return [
    element("h2", {textContent: graph.source === "engine" ? "Engine" : "Model"}),
    element("p", {className: "faint", textContent: "Choose a box to see what it computes" + (graph.source === "engine" ? ", which kernel runs it and why." : ".")}),
    table([["variant", visible(graph.level ?? "")], ["nodes", String(graph.totals.nodes)], ["regions", facts.regions.length ? String(facts.regions.length) : ""], ["FLOPs", rangeText(graph.totals.flops, countText)], ["bytes moved", rangeText(graph.totals.bytes, bytesText)],
      ["parameters", `${graph.totals.parameters} in ${bytesText(graph.totals.parameter_bytes)}`], ["measured", graph.totals.us === undefined ? "" : timeText(graph.totals.us)]]),
    ...(graph.symbols.length ? section("Symbols", table(graph.symbols.map((symbol) => [visible(symbol.name), `${symbol.min} to ${symbol.max}`]))) : []),
    ...(slow.length ? section("Longest regions", element("ul", {}, ...slow.map(({region, index}) => element("li", {}, `${timeText(region.us)} `, link(firstOf(index), shortened(visible(region.label), 60)))))) : []),
    ...section("Most arithmetic", element("ul", {}, ...heavy.map(({thing, flops}) => element("li", {}, `${countText(flops)}  ${thing.node.op} `, link(thing))))),
    ...section(`Parameters`, element("details", {}, element("summary", {textContent: `${parameters.length} tensors`}),
      element("ul", {}, ...parameters.slice(0, 500).map((value) => element("li", {}, element("bdi", {textContent: visible(value.name)}), " ", element("code", {textContent: typeText(value)}), rangeOf(value)))),
      parameters.length > 500 ? element("p", {textContent: `and ${parameters.length - 500} more`}) : "")),
  ];
}

function resultsPanel(query) {
  const {count, things} = find(query, 100);
  return [
    element("h2", {textContent: count === 1 ? "1 match" : `${count} matches`}),
    element("p", {className: "faint", textContent: count > things.length ? `the first ${things.length} are shown` : count ? "Enter goes to the first" : "names, operators, modules, kernels and source lines are searched"}),
    element("ul", {id: "results"}, ...things.map((thing) => element("li", {}, link(thing), ` ${thing.kind === "node" ? thing.node.op : thing.word ?? thing.group.kind}`))),
  ];
}

function showPanel(thing) {
  const content = !thing ? summaryPanel() : thing.kind === "node" ? nodePanel(thing) : thing.kind === "group" ? groupPanel(thing) : portPanel(thing);
  panel.replaceChildren(...content);
  panel.scrollTop = 0;
}
