// The registry that a model comes from: its versions with what the gate found, its history, promotions and rollbacks; and drift.

const kVersionColumns = ["Version", "Gate", "Pushed", "Size", ""];
const kVerdicts = {passed: "good", refused: "bad", undecided: "busy"};
const registry = {reference: null, shown: null, drift: new Map(), hasDrift: true};

const aliasText = () => `${registry.reference.model}@${registry.reference.alias}`;
const registryPath = (action) => `v2/tenon/models/${encodeURIComponent(registry.reference.model)}/${action}`;

/** A row of figures: what was found, of what, and the figures. */
const buildFigure = () => make("li", {}, make("span", {class: "chip"}), " ", make("code"), " ", make("span"));

/** A verdict, and behind it each rule with its figures. */
function showGate(cell, version) {
  const gate = version.gate, chip = cell.querySelector(".chip");
  const isOld = gate && !gate.of_present_rules;
  showChip(chip, gate && !isOld ? kVerdicts[gate.verdict] ?? "idle" : "idle", !gate ? "not measured" : isOld ? `${gate.verdict}, by other rules` : gate.verdict);
  const details = cell.querySelector("details");
  details.hidden = !gate;
  showList(details.querySelector("ul"), gate?.figures ?? [], (row, i) => String(i), buildFigure, (item, row) => {
    const [mark, rule, reason] = item.children;
    showChip(mark, kVerdicts[row.verdict] ?? "idle", row.verdict);
    setText(rule, visible(row.rule));
    setText(reason, visible(row.reason));
  });
}

function buildVersion() {
  const row = makeRow(kVersionColumns), [number, gate, pushed, , action] = row.children;
  number.append(make("span"), " ", make("span", {class: "chip good"}, "serves"), " ", make("small"));
  gate.append(make("span", {class: "chip"}), " ", make("details", {}, make("summary", {}, "figures"), make("ul", {class: "figures"})));
  pushed.append(make("time"));
  action.append(make("button", {type: "button"}, "Promote"));
  return row;
}

function updateVersion(row, version) {
  const [number, gate, pushed, size, action] = row.children, [text, mark, note] = number.children;
  const serves = version.version === registry.shown.version, button = action.firstElementChild;
  setText(text, String(version.version));
  mark.hidden = !serves;
  setText(note, visible(version.note));
  showGate(gate, version);
  showTime(pushed.firstElementChild, version.created);
  setText(size, version.deleted ? "deleted" : bytes(version.bytes));
  button.hidden = serves || version.deleted;
  button.setAttribute("aria-label", `Promote version ${version.version} to ${registry.reference.alias}`);
  button.onclick = () => confirmMove({action: "promote", version: version.version});
}

function eventText(event) {
  const who = visible(event.by), reason = event.reason ? `: ${visible(event.reason)}` : "";
  const moved = event.from ? `from version ${event.from} to ${event.version}` : `to version ${event.version}`;
  return {promote: `promoted ${moved} by ${who}${reason}`, rollback: `rolled back ${moved} by ${who}${reason}`, rules: `rules changed by ${who}`,
    gate: `gate of version ${event.version}: ${event.verdict}, measured by ${who}`}[event.action] ?? `${visible(event.action)} by ${who}`;
}

function showRegistry(info) {
  registry.shown = info;
  byId("registry").hidden = false;
  setText(byId("registry-title"), `Registry: ${aliasText()}`);
  const asked = [...info.rules, ...info.signers.map((signer) => `a signature of ${signer}`)];
  const rules = asked.length > 0 ? `The gate asks for ${asked.map(visible).join("; ")}.` : "The alias has no gate.";
  setText(byId("registry-info"), `${info.version > 0 ? `It is at version ${info.version}.` : "It is at no version."} ${rules}`);
  showList(byId("version-rows"), info.versions, (version) => String(version.version), buildVersion, updateVersion);
  showList(byId("history"), info.events, (event) => String(event.id), () => make("li", {}, make("time"), " ", make("span")), (item, event) => {
    showTime(item.children[0], event.time);
    setText(item.children[1], eventText(event));
  });
}

async function askRegistry(reference) {
  if (!reference) {
    byId("registry").hidden = true;
    return;
  }
  registry.reference = reference;
  try {
    showRegistry(await ask(registryPath("history")));
    await askLineage();
    setText(byId("registry-problem"), "");
  } catch (error) {
    byId("registry").hidden = false;
    setText(byId("registry-problem"), visible(error.message));
  }
}

/** Asks whether to move the alias, and why. The answer to a refusal stays in the dialog. */
function confirmMove(move) {
  const isPromotion = move.action === "promote", at = registry.shown.version;
  const verb = isPromotion ? "Promote" : "Roll back";
  setText(byId("confirm-title"), isPromotion ? `Promote version ${move.version} to ${aliasText()}?` : `Roll ${aliasText()} back?`);
  setText(byId("confirm-text"), isPromotion ? `${at > 0 ? `It is at version ${at} now. ` : ""}Servers that follow it serve version ${move.version} within two seconds; what the gate refuses stays out.`
    : `It leaves version ${at} for the one that it was at before the last promotion.`);
  setText(byId("confirm-do"), verb);
  setText(byId("confirm-problem"), "");
  byId("reason").value = "";
  byId("confirm-form").onsubmit = async (event) => {
    event.preventDefault();
    const button = byId("confirm-do");
    button.disabled = true;
    try {
      const moved = await ask(registryPath(move.action), {...(isPromotion ? {version: move.version} : {}), expected: at, reason: byId("reason").value});
      byId("confirm").close();
      say(`${aliasText()} is at version ${moved.to}`);
      await askRegistry(registry.reference);
    } catch (error) {
      setText(byId("confirm-problem"), visible(error.message));
    }
    button.disabled = false;
    if (byId("confirm").open) {
      button.focus(); // which it lost
    }
  };
  byId("confirm").showModal();
}

function buildDrift(model) {
  return make("div", {}, make("h3", {}, visible(model)), make("p", {}, make("span", {class: "chip"}), " ", make("span")), make("ul", {class: "figures"}));
}

function updateDrift(element, model) {
  const {info} = registry.drift.get(model), [chip, text] = element.children[1].children;
  const drifted = info.features.filter((feature) => feature.drift);
  showChip(chip, info.drift ? "bad" : "good", info.drift ? "drift" : "no drift");
  setText(text, `${drifted.length} of ${whole(info.features.length)} features in ${whole(info.rows)} rows`);
  const figure = (value, most) => (value === null || value === undefined ? "–" : `${digits(value)} (limit ${most === null || most === undefined ? "–" : digits(most)})`);
  const shown = [...drifted, ...info.features.filter((feature) => !feature.drift)].slice(0, 20);
  showList(element.children[2], shown, (feature) => feature.feature, buildFigure, (item, feature) => {
    const [mark, name, figures] = item.children;
    showChip(mark, feature.drift ? "bad" : "good", feature.drift ? "drift" : "same");
    setText(name, visible(feature.feature));
    setText(figures, `PSI ${figure(feature.psi, feature.psi_threshold)} · KS ${figure(feature.ks, feature.ks_threshold)} · missing ${whole(feature.missing ?? 0)} · out of range ${whole(feature.out_of_range ?? 0)} · new values ${whole(feature.new ?? 0)} · lost ${whole(feature.lost ?? 0)}`);
  });
}

/** Asks for a few models at a time; those that are not monitored seldom, and none where the server knows no drift. */
async function askDrift(models) {
  const now = Date.now();
  const due = models.filter((model) => (registry.drift.get(model)?.next ?? 0) <= now).slice(0, 4);
  for (const model of due) {
    if (!registry.hasDrift) {
      return;
    }
    try {
      registry.drift.set(model, {next: now + 10_000, info: await ask(`v2/models/${encodeURIComponent(model)}/drift`)});
    } catch (error) {
      registry.drift.set(model, {next: now + 60_000});
      registry.hasDrift = !error.message.startsWith("TN0809");
    }
  }
  const watched = models.filter((model) => registry.drift.get(model)?.info);
  byId("drift").hidden = watched.length === 0;
  showList(byId("drift-models"), watched, (model) => model, buildDrift, updateDrift);
}
