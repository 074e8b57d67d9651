"""The files of deploy/kserve against the types of KServe's and Kubernetes' Python packages: no field that they do not have, no value of another type.

Relies on the tables that their generator writes into each class. They say less than the schemas of the cluster: chart.py takes those too, where they are.
"""

import copy
import os
import pathlib
import re
import unittest

import kserve
import kubernetes.client
import yaml

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
FILES = sorted((SOURCE / "deploy/kserve").glob("*.yaml"))
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float)}
# Written as a number or as text.
EITHER = {"ResourceQuantity", "IntOrString", "object"}


def faults(value, kind, place):
    """What in `value` is not as the type named `kind` has it, each with its place."""
    if inner := re.fullmatch(r"[Ll]ist\[(.*)\]", kind):
        if not isinstance(value, list):
            return [f"{place}: a list, not {value!r}"]
        return [fault for index, each in enumerate(value) for fault in faults(each, inner[1], f"{place}[{index}]")]
    if inner := re.fullmatch(r"[Dd]ict[\[(]str, (.*)[\])]", kind):
        if not isinstance(value, dict):
            return [f"{place}: a mapping, not {value!r}"]
        return [fault for key, each in value.items() for fault in faults(each, inner[1], f"{place}.{key}")]
    if kind in EITHER or place.endswith(".port"):
        return [] if isinstance(value, (str, int)) else [f"{place}: text or a number, not {value!r}"]
    if kind in PLAIN:
        fits = isinstance(value, PLAIN[kind]) and (kind == "bool") == isinstance(value, bool)
        return [] if fits else [f"{place}: {kind}, not {value!r}"]
    return faults_of_object(value, getattr(kserve, kind, None) or getattr(kubernetes.client, kind), place)


def faults_of_object(value, model, place):
    if not isinstance(value, dict):
        return [f"{place}: a mapping, not {value!r}"]
    names = {key: name for name, key in model.attribute_map.items()}
    found = [f"{place}: there is no '{key}' in {model.__name__}" for key in value if key not in names]
    for key in value.keys() & names.keys():
        found += faults(value[key], model.openapi_types[names[key]], f"{place}.{key}")
    try:
        model(**{names[key]: each for key, each in value.items() if key in names})
    except ValueError as error:  # what has to be there is not, or is none of the words that may be
        found.append(f"{place}: {error}")
    return found


def check(document):
    kind = "".join(part.capitalize() for part in [document["apiVersion"].rpartition("/")[2]]) + document["kind"]
    return faults(document, kind, document["kind"])


class KServe(unittest.TestCase):
    def setUp(self):
        self.documents = {path.stem: yaml.safe_load(path.read_text()) for path in FILES}

    def test_types(self):
        self.assertEqual({"clusterservingruntime", "inferenceservice", "servingruntime"}, set(self.documents))
        for name, document in self.documents.items():
            with self.subTest(name):
                self.assertEqual([], check(document))

    def test_the_runtimes_are_one(self):
        self.assertEqual(self.documents["servingruntime"]["spec"], self.documents["clusterservingruntime"]["spec"])

    def test_they_fit_together(self):
        """The service asks for the format, the protocol and the runtime that there is, and ends later than the server."""
        runtime, predictor = self.documents["servingruntime"], self.documents["inferenceservice"]["spec"]["predictor"]
        self.assertEqual(runtime["metadata"]["name"], predictor["model"]["runtime"])
        self.assertIn(predictor["model"]["modelFormat"]["name"], [each["name"] for each in runtime["spec"]["supportedModelFormats"]])
        self.assertIn(predictor["model"]["protocolVersion"], runtime["spec"]["protocolVersions"])
        [container] = runtime["spec"]["containers"]
        self.assertEqual("kserve-container", container["name"])
        drain = next(int(each[8:-1]) for each in container["args"] if each.startswith("--drain="))
        self.assertLess(drain, predictor["terminationGracePeriodSeconds"])
        self.assertEqual(runtime["spec"]["annotations"]["prometheus.kserve.io/port"], str(container["ports"][0]["containerPort"]))

    def test_planted(self):
        container = lambda document: document["spec"]["containers"][0]  # noqa: E731
        for name, change, words in (
            ("servingruntime", lambda it: container(it).update(readynessProbe={}), "there is no 'readynessProbe' in V1Container"),
            ("servingruntime", lambda it: container(it).update(args="serve"), "args: a list"),
            ("servingruntime", lambda it: container(it)["ports"][0].update(containerPort="8080"), "containerPort: int, not '8080'"),
            ("servingruntime", lambda it: container(it)["ports"][0].pop("containerPort"), "containerPort"),
            ("servingruntime", lambda it: container(it)["securityContext"].update(runAsNonRoot="true"), "runAsNonRoot: bool"),
            ("servingruntime", lambda it: it["spec"]["supportedModelFormats"][0].update(autoselect=True), "there is no 'autoselect'"),
            ("clusterservingruntime", lambda it: it["spec"].update(protocolVersions=[2]), "protocolVersions[0]: str"),
            ("inferenceservice", lambda it: it["spec"]["predictor"]["model"].update(storageURI="x"), "there is no 'storageURI'"),
            ("inferenceservice", lambda it: it["spec"]["predictor"].update(minReplicas="2"), "minReplicas: int"),
            ("inferenceservice", lambda it: it["spec"]["predictor"]["model"].pop("modelFormat"), "model_format"),
        ):
            with self.subTest(words):
                document = copy.deepcopy(self.documents[name])
                change(document)
                self.assertIn(words, "\n".join(check(document)))


if __name__ == "__main__":
    unittest.main()
