// Small charts of the last five minutes: two lines over time, which stretch with the window, and their last values in words.

const kSvg = "http://www.w3.org/2000/svg";
const kWidth = 300, kHeight = 80;

const kCharts = [
  {id: "rate", name: "Requests a second", unit: rate, lines: [["lost", "lost", (point) => point.lost], ["p50", "answered", (point) => point.ok]]},
  {id: "queue", name: "Queue"}, {id: "copy_in", name: "Copy in"}, {id: "compute", name: "Compute"}, {id: "copy_out", name: "Copy out"},
].map((chart) => ({unit: duration, lines: [["p99", "p99", (point) => point[chart.id][1]], ["p50", "p50", (point) => point[chart.id][0]]], ...chart}));

/** The next of 1, 2, 5, 10, 20, ... so that the scale seldom changes. */
function niceMost(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((step) => step * power).find((most) => most >= value);
}

/** Lines between points that follow one another; where there was nothing to measure there is a gap. */
function pathOf(points, valueOf, end, most) {
  let path = "", isOpen = false;
  for (const point of points) {
    const value = valueOf(point), x = kWidth * (1 - (end - point.time) / (kKept * kPeriod));
    if (value === null || x < 0) {
      isOpen = false;
      continue;
    }
    const y = kHeight - 1 - (kHeight - 2) * Math.min(1, value / most);
    path += isOpen ? `L${x.toFixed(1)} ${y.toFixed(1)}` : `M${(x - 0.01).toFixed(2)} ${y.toFixed(1)}L${x.toFixed(1)} ${y.toFixed(1)}`;
    isOpen = true;
  }
  return path;
}

function buildChart(chart) {
  const svg = document.createElementNS(kSvg, "svg");
  const attributes = {viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: "none", role: "img"};
  Object.entries(attributes).forEach(([key, value]) => svg.setAttribute(key, value));
  for (const [kind] of chart.lines) {
    const path = document.createElementNS(kSvg, "path");
    path.setAttribute("class", kind);
    svg.append(path);
  }
  const values = chart.lines.map(([kind, name]) => make("span", {class: `value ${kind}`}, make("b"), ` ${name} `));
  return make("figure", {}, make("figcaption", {}, make("span", {class: "name"}, chart.name), " ", ...values), make("div", {class: "plot"}, make("span", {class: "most"}), svg),
    make("div", {class: "axis", "aria-hidden": "true"}, make("span", {}, "5 min ago"), make("span", {}, "now")));
}

function updateChart(figure, chart, points) {
  const end = points.at(-1)?.time ?? 0;
  const values = points.flatMap((point) => chart.lines.map(([, , valueOf]) => valueOf(point) ?? 0));
  const most = niceMost(Math.max(0, ...values));
  const svg = figure.querySelector("svg"), words = [];
  chart.lines.forEach(([kind, name, valueOf]) => {
    const last = points.length > 0 ? valueOf(points.at(-1)) : null;
    svg.querySelector(`path.${kind}`).setAttribute("d", pathOf(points, valueOf, end, most));
    setText(figure.querySelector(`.value.${kind} b`), chart.unit(last));
    words.push(`${name} ${chart.unit(last)}`);
  });
  setText(figure.querySelector(".most"), chart.unit(most));
  svg.setAttribute("aria-label", `${chart.name} over the last five minutes: ${words.join(", ")} now; scale to ${chart.unit(most)}`);
}

function showCharts(key) {
  const points = samples.series.get(key) ?? [];
  showList(byId("charts"), kCharts, (chart) => chart.id, buildChart, (figure, chart) => updateChart(figure, chart, points));
}
