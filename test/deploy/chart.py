"""The Helm chart of deploy/helm and the manifests of deploy/kubernetes: helm takes them, and so do the schemas of three versions of Kubernetes.

Runs in .venv-deploy, which has helm and the schemas. KServe's own schemas are in no package: with TENON_KSERVE_CRDS, a folder of its
CustomResourceDefinitions (config/crd/full of its sources), the files of deploy/kserve are checked against them too.
"""

import copy
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import kubernetes_validate
import yaml

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
CHART = SOURCE / "deploy/helm/tenon"
PLAIN = SOURCE / "deploy/kubernetes"
TOOLS = pathlib.Path(sys.executable).parent
SETS = [*sorted((CHART / "ci").glob("*.yaml")), PLAIN / "values.yaml"]
VERSIONS = ("1.25", "1.31", "1.37")
OWN_SCHEMA = {"ServiceMonitor"}  # of Prometheus' operator: test_service_monitor looks at it


def helm(*arguments):
    return subprocess.run([TOOLS / "helm", *arguments], capture_output=True, text=True)


def documents(text):
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def rendered(values):
    done = helm("template", "tenon", CHART, "--values", values)
    if done.returncode:
        raise AssertionError(done.stderr)
    return documents(done.stdout)


def faults(document, versions=VERSIONS):
    """What the schemas of the versions refuse."""
    found = []
    for version in versions:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{version}: {'.'.join(map(str, error.path))}: {error.message}")
    return found


def container(document):
    return document["spec"]["template"]["spec"]["containers"][0]


class Chart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.all = {path.stem: rendered(path) for path in SETS}

    def only(self, name, kind):
        return next(each for each in self.all[name] if each["kind"] == kind)

    def test_lint(self):
        for values in SETS:
            with self.subTest(values.name):
                done = helm("lint", "--strict", CHART, "--values", values)
                self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_schemas_of_kubernetes(self):
        seen = set()
        for name, made in self.all.items():
            for document in made:
                seen.add(document["kind"])
                if document["kind"] not in OWN_SCHEMA:
                    with self.subTest(f"{name}: {document['kind']}"):
                        self.assertEqual([], faults(document))
        self.assertEqual({"Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget", "HorizontalPodAutoscaler", "ServiceAccount", "ServiceMonitor"}, seen)

    def test_what_schemas_refuse(self):
        """A planted fault each; so the checks above can fail."""
        plain = self.only("folder-values", "Deployment")
        for words, change in (
            ("'readyProbe' was unexpected", lambda it: container(it).update(readyProbe={})),
            ("'two' is not of type", lambda it: it["spec"].update(replicas="two")),
            ("is not of type 'array'", lambda it: container(it).update(args="serve")),
            ("'image' was unexpected", lambda it: it["spec"].update(image="tenon")),
            ("is not of type 'boolean'", lambda it: container(it)["securityContext"].update(readOnlyRootFilesystem="yes")),
            ("'selector' is a required property", lambda it: it["spec"].pop("selector")),
        ):
            with self.subTest(words):
                document = copy.deepcopy(plain)
                change(document)
                found = faults(document)
                self.assertEqual(len(VERSIONS), len(found), found)
                for each in found:
                    self.assertIn(words, each)

    def test_values_that_are_refused(self):
        """By the chart's schema, or by what belongs together; nothing is rendered."""
        base = "folder: {claim: models}\ninsecure: true\n"
        for words, values in (
            ("insecur", base + "insecur: true\n"),
            ("claims", "folder: {claims: models}\ninsecure: true\n"),
            ("replicas", base + "replicas: two\n"),
            ("drainSeconds", base + "drainSeconds: 30s\n"),
            ("port", base + "port: 80\n"),
            ("pullPolicy", base + "image: {pullPolicy: Sometimes}\n"),
            ("cpuPercent", base + "autoscaling: {enabled: true, cpuPercent: 150}\n"),
            ("args", base + "args: [threads 2]\n"),
            ("memoryBudget", base + "memoryBudget: 4Gi\n"),
            ("registry", "registry: {model: fashion, claim: registry}\ninsecure: true\n"),
            ("cacheSize", "registry: {model: m@a, url: 'postgresql://db/m', cacheSize: 20G}\ninsecure: true\n"),
            ("set registry.model to @ALIAS", "registry: {model: m@a, url: 'postgresql://db/m', select: team=vision}\ninsecure: true\n"),
            ("set serviceAccount.create", base + "serviceAccount: {annotations: {a: b}}\n"),
            ("nothing to serve", "insecure: true\n"),
            ("who may ask?", "folder: {claim: models}\n"),
            ("not both", base + "tokens: {secret: t}\n"),
            ("registry.claim or registry.url", "registry: {model: m@a}\ninsecure: true\n"),
            ("above autoscaling.maxReplicas", base + "autoscaling: {enabled: true, minReplicas: 9, maxReplicas: 3}\n"),
            ("serviceMonitor.tokenSecret", "folder: {claim: models}\ntokens: {secret: t}\nserviceMonitor: {enabled: true}\n"),
        ):
            with self.subTest(words), tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(values)
                file.flush()
                done = helm("template", "tenon", CHART, "--values", file.name)
                self.assertNotEqual(0, done.returncode)
                self.assertIn(words, done.stderr)

    def test_the_schema_knows_every_value(self):
        """A value that is not in the schema could be misspelt unseen."""
        schema, values = json.loads((CHART / "values.schema.json").read_text()), yaml.safe_load((CHART / "values.yaml").read_text())

        def compare(schema, values, place):
            properties = schema.get("properties")
            if properties is None:
                return []
            found = [] if schema.get("additionalProperties") is False else [f"{place} takes any key"]
            found += [f"{place}.{key} is not in the schema" for key in values if key not in properties]
            return found + [fault for key, value in values.items() if isinstance(value, dict) and value for fault in compare(properties.get(key, {}), value, f"{place}.{key}")]

        self.assertEqual([], compare(schema, values, "values"))

    def test_plain_manifests_are_the_charts(self):
        made = helm("template", "tenon", CHART, "--values", PLAIN / "values.yaml")
        self.assertEqual((PLAIN / "tenon.yaml").read_text(), made.stdout, "make it again: the first line of deploy/kubernetes/values.yaml says how")

    def test_the_page(self):
        """The commands of docs/guides/deploy.md that need helm alone."""
        [block] = re.findall(r"^```sh\n(helm.*?)^```", (SOURCE / "docs/guides/deploy.md").read_text(), re.M | re.S)
        self.assertEqual(3, len(block.splitlines()))
        done = subprocess.run(["bash", "-ec", block], cwd=SOURCE, env={**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}, capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_names_are_told_apart(self):
        """Two releases in one namespace: neither takes the other's pods."""
        first, second = (documents(helm("template", name, CHART, "--set", "folder.claim=m,insecure=true").stdout) for name in ("a", "b"))
        self.assertFalse({each["metadata"]["name"] for each in first} & {each["metadata"]["name"] for each in second})
        selectors = [next(each for each in made if each["kind"] == "Service")["spec"]["selector"] for made in (first, second)]
        self.assertNotEqual(*selectors)

    def test_pods_end_after_the_server(self):
        for name in self.all:
            with self.subTest(name):
                pod = self.only(name, "Deployment")["spec"]["template"]["spec"]
                drain = next(int(each[8:-1]) for each in pod["containers"][0]["args"] if each.startswith("--drain="))
                self.assertGreater(pod["terminationGracePeriodSeconds"], drain + int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1]))

    def test_selectors_find_the_pods(self):
        for name, made in self.all.items():
            labels = self.only(name, "Deployment")["spec"]["template"]["metadata"]["labels"]
            for document in made:
                spec = document.get("spec", {})
                selector = spec["selector"] if document["kind"] == "Service" else (spec.get("podSelector") or spec.get("selector") or {}).get("matchLabels", {})
                with self.subTest(f"{name}: {document['kind']}"):
                    self.assertLessEqual(selector.items(), labels.items())

    def test_numbers_stay_whole(self):
        """Helm reads numbers as floats, and would write large ones as 1e+09."""
        self.assertIn("--memory-budget=1073741824", container(self.only("secure-values", "Deployment"))["args"])
        for name in self.all:
            self.assertEqual([], [each for each in container(self.only(name, "Deployment"))["args"] if re.search(r"\de[+-]\d", each)])

    def test_cache(self):
        """The server takes less than the volume has, beyond which the pod would be evicted; who the pods are is made with them."""
        spec = self.only("database-values", "Deployment")["spec"]["template"]["spec"]
        self.assertLessEqual({"registry:@production", "--select=team=vision", "--cache-size=20GiB"}, set(spec["containers"][0]["args"]))
        [volume] = [each for each in spec["volumes"] if each["name"] == "cache"]
        self.assertEqual("22592Mi", volume["emptyDir"]["sizeLimit"])
        account = self.only("database-values", "ServiceAccount")
        self.assertEqual(account["metadata"]["name"], spec["serviceAccountName"])
        self.assertIn("eks.amazonaws.com/role-arn", account["metadata"]["annotations"])
        self.assertNotIn("serviceAccountName", self.only("folder-values", "Deployment")["spec"]["template"]["spec"])

    def test_egress(self):
        """Nobody is reached, unless the registry is elsewhere."""
        self.assertEqual([], self.only("folder-values", "NetworkPolicy")["spec"]["egress"])
        self.assertEqual(2, len(self.only("database-values", "NetworkPolicy")["spec"]["egress"]))

    def test_service_monitor(self):
        monitor, service = self.only("secure-values", "ServiceMonitor"), self.only("secure-values", "Service")
        self.assertEqual("tenon", service["metadata"]["labels"][monitor["spec"]["jobLabel"]])
        [endpoint] = monitor["spec"]["endpoints"]
        self.assertEqual(("http", "/metrics", "https"), (endpoint["port"], endpoint["path"], endpoint["scheme"]))
        self.assertIn(endpoint["port"], [each["name"] for each in service["spec"]["ports"]])


class KServe(unittest.TestCase):
    def schemas(self):
        folder = os.environ.get("TENON_KSERVE_CRDS")
        if not folder:
            self.skipTest("TENON_KSERVE_CRDS names no folder of KServe's CustomResourceDefinitions")
        found = {}
        for path in glob.glob(f"{folder}/*.yaml"):
            for document in documents(pathlib.Path(path).read_text()):
                for version in document["spec"]["versions"] if document.get("kind") == "CustomResourceDefinition" else ():
                    found[document["spec"]["names"]["kind"], f"{document['spec']['group']}/{version['name']}"] = strict(version["schema"]["openAPIV3Schema"])
        return found

    def test_schemas_of_kserve(self):
        schemas = self.schemas()
        for path in (SOURCE / "deploy/kserve").glob("*.yaml"):
            [document] = documents(path.read_text())
            schema = schemas[document["kind"], document["apiVersion"]]
            with self.subTest(path.name):
                jsonschema.validate(document, schema)
                for key, value in (("spek", {}), ("spec", [])):
                    with self.assertRaises(jsonschema.ValidationError):
                        jsonschema.validate({**document, key: value}, schema)


def strict(schema):
    """The same where keys that it does not know are faults, as `kubectl apply` has it; metadata is Kubernetes' own."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    made = {key: ({name: strict(each) for name, each in value.items()} if key == "properties" else strict(value)) for key, value in schema.items() if key != "format"}
    if "properties" in made and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made["additionalProperties"] = False
    return made


if __name__ == "__main__":
    unittest.main()
