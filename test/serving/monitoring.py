"""The rules for Prometheus and the dashboard for Grafana ask for metrics and labels that a server has, and the dashboard shows all that it has.

With promtool, where it is installed, also that the rules are valid and give the alerts of rules_test.yml.
"""

import json
import re
import shutil
import subprocess
import unittest

import numpy as np

from server import PIXELS, SOURCE, Server, ServingTest, input_of, request

FOLDER = SOURCE / "server/monitoring"
RULES = FOLDER / "tenon.rules.yml"
# Of Prometheus itself, and what the rules record.
OTHERS = {"up": {"job"}}
TARGET = {"job", "instance"}  # labels that scraping adds
WORDS = {"sum", "count", "min", "max", "and", "avg_over_time", "by", "rate", "increase", "histogram_quantile", "label_values"}


def exported(text):
    """{name: labels} of the lines of /metrics."""
    found = {}
    for name, labels in re.findall(r"^([a-z_]+)(\{.*\})? \S+$", text, re.M):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def asked(expression):
    """({metric: labels that it is selected by}, labels to group by) of an expression of PromQL."""
    plain = re.sub(r'"[^"]*"', '""', expression)
    grouped = {label.strip() for group in re.findall(r"\bby \(([^)]*)\)", plain) for label in group.split(",")}
    plain = re.sub(r"\bby \([^)]*\)", "", re.sub(r"\[[^]]*\]", "", plain))
    if values := re.fullmatch(r"label_values\((\w+), (\w+)\)", plain):
        return {values[1]: {values[2]}}, set()
    found = {}
    for name, labels in re.findall(r"([a-zA-Z_:][\w:]*)(\{[^}]*\})?", re.sub(r"\$\w+", "", plain)):
        if name not in WORDS and not re.fullmatch(r"e\d*", name):
            found.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels))
    return found, grouped


def faults(expressions, known):
    found = []
    for expression in expressions:
        names, grouped = asked(expression)
        for name, labels in names.items():
            if name not in known:
                found.append(f"there is no metric {name}: {expression}")
            else:
                found += [f"{name} has no label {label}: {expression}" for label in sorted((labels | grouped) - known[name] - TARGET)]
    return found


class Monitoring(ServingTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # One that watches, and had something to tell.
        reference = cls.folder / "reference.npz"
        np.savez(reference, image=np.random.default_rng(1).random((50, 1, 28, 28), np.float32))
        with Server(cls.folder / "models", "--drift-reference", f"cnn={reference}", "--drift-window", 30, "--on-drift", "rollback-any", "--webhook", "http://127.0.0.1:1", "--otlp", "http://127.0.0.1:1") as server:
            server.wait_until(lambda: server.get("/v2/models/cnn/drift")[0] == 200)
            server.post("/v2/models/cnn/infer", {"id": "a", **request()})
            server.post("/v2/models/cnn/labels", [{"id": "a", "label": 1}])
            server.post("/v2/models/cnn/infer", {"inputs": [input_of(shape=[90, 1, 28, 28], data=[0] * 90 * PIXELS)]})
            server.wait_until(lambda: "could not be rolled back: TN1012" in "".join(server.log))
            cls.known = exported(server.get("/metrics")[1].decode())
        text = RULES.read_text()
        cls.rules = re.findall(r"^\s+expr: (.+)$", text, re.M)
        cls.recorded = {name: asked(rule)[1] - {"le"} for name, rule in re.findall(r"- record: (\S+)\n\s+expr: (.+)$", text, re.M)}
        cls.dashboard = json.loads((FOLDER / "tenon.grafana.json").read_text())
        cls.panels = [target["expr"] for panel in cls.dashboard["panels"] for target in panel["targets"]]
        cls.panels += [variable["query"]["query"] for variable in cls.dashboard["templating"]["list"] if variable["type"] == "query"]

    def test_rules_ask_for_what_there_is(self):
        self.assertGreater(len(self.rules), 8)
        self.assertEqual([], faults(self.rules, {**self.known, **OTHERS, **self.recorded}))

    def test_the_dashboard_asks_for_what_there_is_and_shows_all_of_it(self):
        self.assertEqual([], faults(self.panels, self.known))
        shown = {name for expression in self.panels for name in asked(expression)[0]}
        families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in self.known}
        self.assertEqual(families, {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown})
        for panel in self.dashboard["panels"]:
            labels = {label for target in panel["targets"] for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])}
            self.assertLessEqual(labels, {"model", "version", "stage", "outcome", "instance", "device", "worker", "feature", "drift", "bound", "known"})

    def test_planted(self):
        known = {"a_total": {"model"}}
        self.assertEqual([], faults(['sum by (model) (rate(a_total{model=~"x|y"}[5m])) > 1e3'], known))
        self.assertEqual(1, len(faults(["sum by (model) (rate(b_total[5m]))"], known)))
        self.assertEqual(1, len(faults(['a_total{name="x"}'], known)))
        self.assertEqual(1, len(faults(["sum by (version) (a_total)"], known)))
        self.assertEqual({"a_bucket": {"le", "model"}}, exported('# HELP a b\na_bucket{model="x",le="+Inf"} 3\n'))

    def test_promtool(self):
        promtool = shutil.which("promtool")
        if not promtool:
            print("promtool is not installed (apt install prometheus): the rules are only compared with the metrics")
            return
        subprocess.run([promtool, "check", "rules", RULES], check=True, capture_output=True)
        given = self.folder / "rules_test.yml"
        given.write_text((SOURCE / "test/serving/rules_test.yml").read_text().replace("RULES", str(RULES)))
        done = subprocess.run([promtool, "test", "rules", given], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
