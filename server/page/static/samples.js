// What the page keeps of the counters that it asked for: rates and quantiles of the last minutes, of each model and of all.

const kPeriod = 2000;   // milliseconds between two questions
const kKept = 150;      // points: five minutes
const kWindow = 5;      // periods that a quantile is of
const kStages = ["queue", "copy_in", "compute", "copy_out"];
const kHistograms = ["request", ...kStages];
const kCounters = ["ok", "rejected", "timed_out", "failed"];

const samples = {
  started: 0, bounds: [],
  totals: [],         // of the last questions: a Map from "" (all), "model" or "model/version" to counters
  series: new Map(),  // from "" or "model" to points
  latest: new Map(),  // from each key to its last point
};

const emptyTotal = () => Object.fromEntries([...["waiting", "bytes", ...kCounters].map((name) => [name, 0]), ...kHistograms.map((name) => [name, []])]);

function addTo(totals, key, version) {
  let total = totals.get(key);
  if (!total) {
    total = emptyTotal();
    totals.set(key, total);
  }
  for (const name of ["waiting", "bytes", ...kCounters]) {
    total[name] += version[name];
  }
  for (const name of kHistograms) {
    version[name].forEach((count, bin) => { total[name][bin] = (total[name][bin] ?? 0) + count; });
  }
}

function totalsOf(status) {
  const totals = new Map();
  totals.set("", status.totals);
  for (const [model, {versions}] of Object.entries(status.models)) {
    for (const [number, version] of Object.entries(versions)) {
      [model, `${model}/${number}`].forEach((key) => addTo(totals, key, version));
    }
  }
  return totals;
}

/** Of the durations that came between two histograms, in microseconds, as if they lay evenly in their bins; null where none did. */
function quantile(now, before, share) {
  const counts = now.map((count, bin) => count - (before[bin] ?? 0));
  const sum = counts.reduce((all, count) => all + count, 0);
  let left = share * sum;
  for (let bin = 0; bin < counts.length && sum > 0; ++bin) {
    const low = bin === 0 ? 0 : samples.bounds[bin - 1], high = samples.bounds[bin] ?? low;
    if (counts[bin] > 0 && left <= counts[bin]) {
      return low + (high - low) * (left / counts[bin]);
    }
    left -= counts[bin];
  }
  return null;
}

/** Of a key that was not asked for before there is nothing to compare with. */
function pointOf(key, now, kept) {
  const earlier = kept.find(({totals}) => totals.has(key)), before = earlier.totals.get(key);
  const seconds = (now.time - earlier.time) / 1000;
  const total = now.totals.get(key);
  const grown = (name) => (seconds > 0 ? (total[name] - before[name]) / seconds : null);
  const point = {time: now.time, ok: grown("ok"), lost: null};
  if (seconds > 0) {
    point.lost = grown("rejected") + grown("timed_out") + grown("failed");
  }
  for (const name of kHistograms) {
    point[name] = [0.5, 0.99].map((share) => (seconds > 0 ? quantile(total[name], before[name], share) : null));
  }
  return point;
}

/** Takes the counters of one moment. A server that was started again begins anew. */
function takeSample(status) {
  if (status.started !== samples.started) {
    samples.totals = [];
    samples.series.clear();
  }
  samples.started = status.started;
  samples.bounds = status.bounds_us;
  const now = {time: status.time, totals: totalsOf(status)};
  samples.totals.push(now);
  const kept = samples.totals;
  samples.totals = samples.totals.slice(-kWindow);
  samples.latest.clear();
  for (const key of now.totals.keys()) {
    const point = pointOf(key, now, kept);
    samples.latest.set(key, point);
    if (key === "" || key in status.models) { // not of each version
      const series = samples.series.get(key) ?? [];
      series.push(point);
      samples.series.set(key, series.slice(-kKept));
    }
  }
  for (const key of samples.series.keys()) {
    if (!now.totals.has(key)) {
      samples.series.delete(key);
    }
  }
}
