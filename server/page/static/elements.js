// Elements and numbers as text. What comes from outside becomes text alone, never markup: nothing here parses HTML.

const byId = (id) => document.getElementById(id);

/** Text from outside, with characters that hide or turn other text written out. */
const visible = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
  (character) => `\\u${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`);

/** make("p", {class: "hint"}, "text", element, ...) */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Changes nothing where nothing changed: what a person selects stays selected. */
function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/** Makes the children of `parent` one for each item, in their order. The element of a key, which no two share, stays the same and keeps the focus. */
function showList(parent, items, keyOf, build, update) {
  const keys = items.map(keyOf), wanted = new Set(keys);
  [...parent.children].filter((child) => !wanted.has(child.dataset.key)).forEach((child) => child.remove());
  const present = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  items.forEach((item, i) => {
    let element = present.get(keys[i]);
    if (!element) {
      element = build(item);
      element.dataset.key = keys[i];
    }
    if (element === place) {
      place = place.nextElementSibling;
    } else {
      parent.insertBefore(element, place);
    }
    update(element, item);
  });
}

/** A row of a table whose cells say on narrow screens what column they are of. */
function makeRow(columns) {
  const row = make("tr", {role: "row"});
  columns.forEach((column, i) => {
    const cell = i === 0 ? make("th", {role: "rowheader", scope: "row"}) : make("td", {role: "cell", "data-label": column});
    cell.className = i > 2 ? "number" : "";
    row.append(cell);
  });
  return row;
}

function makeHead(row, columns) {
  row.replaceChildren(...columns.map((column, i) => make("th", {role: "columnheader", scope: "col", class: i > 2 ? "number" : ""}, column)));
}

/** A state in words, with a color and a sign that say the same: "good", "busy", "bad" or "idle". */
function showChip(element, kind, text) {
  element.className = `chip ${kind}`;
  setText(element, text);
}

const digits = (value) => value.toLocaleString("en", {maximumSignificantDigits: 3});
const whole = (value) => value.toLocaleString("en");
const rate = (value) => (value === null ? "–" : value === 0 ? "0" : value < 0.01 ? "< 0.01" : value < 1000 ? digits(value) : whole(Math.round(value)));

function duration(microseconds) {
  if (microseconds === null || microseconds === undefined) {
    return "–";
  }
  return microseconds < 1000 ? `${digits(microseconds)} µs` : microseconds < 1e6 ? `${digits(microseconds / 1e3)} ms` : `${digits(microseconds / 1e6)} s`;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit + 1 < units.length; ++unit) {
    count /= 1024;
  }
  return `${digits(count)} ${units[unit]}`;
}

function span(milliseconds) {
  const minutes = Math.floor(milliseconds / 60000), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  return days > 0 ? `${days} d ${hours % 24} h` : hours > 0 ? `${hours} h ${minutes % 60} min` : minutes > 0 ? `${minutes} min` : `${Math.max(0, Math.floor(milliseconds / 1000))} s`;
}

/** The time of day, with the date where it is of another day. */
function showTime(element, milliseconds) {
  const time = new Date(milliseconds);
  const isToday = time.toDateString() === new Date().toDateString();
  element.dateTime = time.toISOString();
  setText(element, isToday ? time.toLocaleTimeString("en-GB") : `${time.toLocaleDateString("en-CA")} ${time.toLocaleTimeString("en-GB")}`);
}

/** Told to people who do not look, and only what they would want to be interrupted for. */
const say = (text) => setText(byId("said"), text);
