// The page: asks the server every two seconds and shows what it says.

const kModelColumns = ["Model", "Version", "State", "Share", "Requests/s", "Lost/s", "p50", "p99", "Waiting", "Memory"];
const kMaxRows = 50;
const kTokenKey = "tenon.token";
const page = {isPaused: false, first: 0, status: null, states: new Map(), timer: 0};

class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** JSON of the server at a path of its own; a POST where there is something to send. */
async function ask(path, sent) {
  const token = sessionStorage.getItem(kTokenKey);
  const answer = await fetch(path, {
    method: sent === undefined ? "GET" : "POST", body: sent === undefined ? undefined : JSON.stringify(sent), cache: "no-store", redirect: "error",
    headers: token ? {Authorization: `Bearer ${token}`} : {}, signal: AbortSignal.timeout(15_000),
  });
  const value = await answer.json();
  if (!answer.ok) {
    throw new ServerError(answer.status, value.error);
  }
  return value;
}

/** One page of what a person looks for: the server finds and orders, so that a thousand models cost what fifty do. */
function statusPath() {
  const asked = {find: byId("filter").value, state: byId("filter-state").value, order: byId("order").value, chosen: byId("chosen").value, first: page.first, count: kMaxRows};
  return `v2/tenon/status?${Object.entries(asked).filter(([, value]) => value !== "").map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&")}`;
}

/** What the table has of a version. Weights may be of versions that went. */
function rowsOf(status) {
  return status.index.map(({name, version, state, reason, labels}) => {
    const {traffic, versions} = status.models[name], info = versions[version];
    const serving = Object.entries(versions).filter(([, each]) => each.serving).map(([number]) => Number(number));
    const weights = Object.entries(traffic.weights).filter(([number]) => serving.includes(Number(number)));
    const sum = weights.reduce((all, [, weight]) => all + weight, 0);
    const share = sum > 0 ? (traffic.weights[version] ?? 0) / sum : Number(version) === Math.max(...serving) ? 1 : 0;
    const isShadow = traffic.shadow === version;
    return {key: `${name}/${version}`, name, version, state: info?.cold ? "COLD" : state, reason, labels, share, info, shadow: isShadow ? traffic.shadow_stats : null};
  });
}

function shadowText(shadow) {
  const outputs = Object.entries(shadow.outputs).filter(([, output]) => output.different > 0);
  const differences = outputs.map(([name, output]) => `${visible(name)} by up to ${typeof output.largest_difference === "number" ? digits(output.largest_difference) : output.largest_difference}`);
  return `shadow: ${whole(shadow.compared)} compared, ${whole(shadow.different)} differ${differences.length > 0 ? ` (${differences.join(", ")})` : ""}, ${whole(shadow.failed)} failed, ${whole(shadow.dropped)} passed over`;
}

const kStates = {READY: ["good", "ready"], COLD: ["idle", "cold"], LOADING: ["busy", "loading"], UNLOADING: ["busy", "unloading"], UNAVAILABLE: ["bad", "not ready"]};

function buildModel() {
  const row = makeRow(kModelColumns);
  row.children[0].append(make("span"), " ", make("small"));
  row.children[2].append(make("span", {class: "chip"}), " ", make("small"), " ", make("small"));
  return row;
}

function updateModel(row, {key, name, version, state, reason, labels, share, info, shadow}) {
  const cells = row.children, point = samples.latest.get(key);
  const [kind, word] = reason === "unloaded" ? ["idle", "unloaded"] : kStates[state] ?? ["idle", state];
  setText(cells[0].children[0], visible(name));
  setText(cells[0].children[1], labels.map(visible).join(" "));
  setText(cells[1], version || "–");
  const [chip, why, shadowed] = cells[2].children;
  showChip(chip, kind, word);
  setText(why, reason === "unloaded" ? "" : visible(reason));
  setText(shadowed, shadow ? shadowText(shadow) : "");
  const values = info && point ? [shadow ? "shadow" : share > 0 ? `${digits(share * 100)} %` : "–", rate(point.ok), rate(point.lost), duration(point.request[0]), duration(point.request[1]), whole(info.waiting), info.bytes > 0 ? bytes(info.bytes) : "–"]
    : Array(7).fill("–");
  values.forEach((value, i) => setText(cells[3 + i], value));
}

function showModels(status) {
  const rows = rowsOf(status);
  byId("filter-form").hidden = status.all <= 10;
  showList(byId("model-rows"), rows, (row) => row.key, buildModel, updateModel);
  byId("pages").hidden = rows.length === status.all;
  byId("previous").disabled = page.first === 0;
  byId("next").disabled = page.first + rows.length >= status.found;
  const matching = status.found === status.all ? "versions" : `found versions, of ${whole(status.all)}`;
  setText(byId("more"), rows.length > 0 ? `${whole(page.first + 1)} to ${whole(page.first + rows.length)} of ${whole(status.found)} ${matching}` : `none of ${whole(status.all)} versions`);
  showList(byId("chosen"), ["", ...Object.keys(status.models)], (name) => name, (name) => make("option", {value: name}, name ? visible(name) : "all models"), () => {});
  rows.filter((row) => page.states.has(row.key) && page.states.get(row.key) !== row.state).forEach((row) => say(`${visible(row.name)} version ${row.version} is ${kStates[row.state]?.[1] ?? row.state}`));
  page.states = new Map(rows.map((row) => [row.key, row.state]));
}

function showTiles(status) {
  const all = samples.totals.at(-1).totals.get(""), point = samples.latest.get("");
  const sum = (list, key) => list.reduce((total, each) => total + each[key], 0);
  const budget = status.devices.every((device) => device.budget > 0) ? sum(status.devices, "budget") : 0;
  const losses = sum(status.workers, "losses");
  const tiles = [
    ["Requests/s", rate(point.ok), `${whole(all.ok)} answered`],
    ["Lost/s", rate(point.lost), `${whole(all.failed)} failed, ${whole(all.rejected)} refused, ${whole(all.timed_out)} late`],
    ["p50", duration(point.request[0]), "of the whole request"], ["p99", duration(point.request[1]), "in the last ten seconds"],
    ["Waiting", whole(all.waiting), "in all queues"],
    ["Memory", bytes(all.bytes), budget > 0 ? `${digits(100 * all.bytes / budget)} % of ${bytes(budget)}` : "no budget is set"],
    ["Workers lost", whole(losses), losses > 0 ? "and started again" : `${whole(status.workers.length)} at work`], ["Evictions", whole(sum(status.devices, "evictions")), "to make room"],
  ];
  showList(byId("tiles"), tiles, ([name]) => name, ([name]) => make("div", {}, make("dt", {}, name), make("dd"), make("dd", {class: "hint"})), (tile, [, value, hint]) => {
    setText(tile.children[1], value);
    setText(tile.children[2], hint);
  });
}

function showErrors(errors) {
  byId("no-errors").hidden = errors.length > 0;
  const keyOf = (error) => `${error.code} ${error.model} ${error.message}`;
  showList(byId("errors"), errors, keyOf, () => make("li", {}, make("time"), " ", make("code"), " ", make("b"), " ", make("span"), " ", make("small")), (item, error) => {
    const [time, code, model, text, hint] = item.children;
    showTime(time, error.time);
    setText(code, error.code);
    setText(model, visible(error.model));
    setText(text, visible(error.message));
    setText(hint, `${visible(error.hint)}${error.count > 1 ? `${error.hint ? " · " : ""}${whole(error.count)} times` : ""}`);
  });
}

function showState(kind, text) {
  if (byId("state-text").textContent !== text) {
    say(`The server: ${text}`);
  }
  byId("state").className = `chip ${kind}`;
  setText(byId("state-text"), text);
}

function showStatus(status) {
  page.status = status;
  takeSample(status);
  byId("content").hidden = false;
  byId("token-form").hidden = true;
  showState(status.draining ? "busy" : status.ready ? "good" : "bad", status.draining ? "stopping" : status.ready ? "ready" : "not ready");
  setText(byId("info"), `version ${visible(status.version)}, up for ${span(status.time - status.started)}`);
  showTiles(status);
  showModels(status);
  showCharts(byId("chosen").value);
  showErrors(status.errors);
  showChat(status);
}

/** 401: no token, or a wrong one; 403: one that may not see this. */
function askToken(error) {
  const hadOne = sessionStorage.getItem(kTokenKey) !== null;
  sessionStorage.removeItem(kTokenKey);
  byId("content").hidden = true;
  byId("token-form").hidden = false;
  setText(byId("token-problem"), hadOne ? visible(error.message) : "");
  showState("idle", "asks for a token");
  byId("token").focus();
}

async function poll() {
  clearTimeout(page.timer);
  let mayGoOn = true;
  try {
    const path = statusPath(), status = await ask(path);
    if (path !== statusPath()) {
      return; // something else is looked for by now, and asked for
    }
    showStatus(status);
    await askRegistry(status.registry);
    await askDrift(Object.keys(status.models));
  } catch (error) {
    const wantsToken = error instanceof ServerError && (error.status === 401 || error.status === 403);
    mayGoOn = !wantsToken;
    wantsToken ? askToken(error) : showState("bad", error instanceof ServerError ? visible(error.message) : "cannot be reached");
  }
  byId("forget").hidden = sessionStorage.getItem(kTokenKey) === null;
  clearTimeout(page.timer); // of another one that was under way
  if (mayGoOn && !page.isPaused) {
    page.timer = setTimeout(poll, kPeriod);
  }
}

makeHead(byId("model-head"), kModelColumns);
makeHead(byId("version-head"), kVersionColumns);
byId("chosen").onchange = (event) => {
  showCharts(event.target.value);
  poll(); // for its registry
};
const showPage = (first) => {
  page.first = Math.max(0, first);
  poll();
};
byId("filter").oninput = () => {
  clearTimeout(page.typing);
  page.typing = setTimeout(() => showPage(0), 200); // not at each letter
};
byId("filter-state").onchange = byId("order").onchange = () => showPage(0);
byId("filter-form").onsubmit = (event) => event.preventDefault();
byId("previous").onclick = () => showPage(page.first - kMaxRows);
byId("next").onclick = () => showPage(page.first + kMaxRows);
byId("lineage-details").ontoggle = askLineage;
byId("rollback").onclick = () => confirmMove({action: "rollback"});
byId("confirm-cancel").onclick = () => byId("confirm").close();
byId("pause").onclick = () => {
  page.isPaused = !page.isPaused;
  byId("pause").setAttribute("aria-pressed", String(page.isPaused));
  page.isPaused ? clearTimeout(page.timer) : poll();
};
byId("forget").onclick = () => {
  sessionStorage.removeItem(kTokenKey);
  poll();
};
byId("token-form").onsubmit = (event) => {
  event.preventDefault();
  sessionStorage.setItem(kTokenKey, byId("token").value.trim());
  byId("token").value = "";
  poll();
};
poll();
