"""What the files of deploy/ start: their arguments are those of `tenon serve`, their probes its paths, and a server that is started as they say answers.

Started as a pod is: another user than root, no capabilities, a read-only file system, a mounted secret. Relies on root for that, and skips it without.
"""

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

from server import CNN, SOURCE, TENON, Server, ServingTest

DEPLOY = SOURCE / "deploy"
KSERVE = [DEPLOY / "kserve/servingruntime.yaml", DEPLOY / "kserve/clusterservingruntime.yaml"]
PLAIN = DEPLOY / "kubernetes/tenon.yaml"
CONTAINERFILE = (DEPLOY / "image/Containerfile").read_text()
TOKEN = "0123456789abcdef0123456789abcdef"
USER = "65532"
AS_POD = ["unshare", "--mount", "sh", "-c", f'mount -o remount,bind,ro / && exec setpriv --reuid={USER} --regid={USER} --groups={USER} --no-new-privs --bounding-set=-all --inh-caps=-all "$@"', "sh"]


def containers():
    """(file, container) of everything that runs the server."""
    for path in (*KSERVE, PLAIN):
        for document in yaml.safe_load_all(path.read_text()):
            spec = document["spec"]
            if document["kind"] == "Deployment":
                spec = spec["template"]["spec"]
            for container in spec.get("containers", []):
                yield path, container


def container_of(wanted):
    return next(container for path, container in containers() if path == wanted)


def option(arguments, name):
    return next((each.partition("=")[2] for each in arguments if each.startswith(f"--{name}=")), None)


def flags_of_help():
    text = subprocess.run([TENON, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(--[a-z][a-z-]+)", text))


def unknown_flags(arguments, known):
    return [each for each in arguments if each.startswith("--") and each.partition("=")[0] not in known]


def can_be_a_pod():
    return os.geteuid() == 0 and subprocess.run([*AS_POD, "true"], capture_output=True).returncode == 0


class Words(unittest.TestCase):
    """What can be said without starting anything."""

    def test_arguments(self):
        known = flags_of_help()
        self.assertIn("--memory-budget", known)
        found = list(containers())
        self.assertEqual(3, len(found))
        for path, container in found:
            with self.subTest(path.name):
                self.assertEqual("serve", container["args"][0])
                self.assertEqual([], unknown_flags(container["args"], known))
        chart = re.findall(r"^ +- (--[a-z-]+)", (DEPLOY / "helm/tenon/templates/deployment.yaml").read_text(), re.M)
        self.assertGreater(len(chart), 8)
        more = [each for path in (DEPLOY / "helm/tenon/ci").glob("*.yaml") for each in yaml.safe_load(path.read_text()).get("args", [])]
        self.assertEqual([], unknown_flags([*chart, *more], known))
        self.assertEqual(["--treads=2"], unknown_flags(["serve", "--treads=2", "--insecure"], known))

    def test_paths_and_ports(self):
        """Every path that a cluster asks for is the server's, at the port where it listens."""
        routes = json.loads(subprocess.run([TENON, "serve", "--routes", "--json"], capture_output=True, check=True).stdout)["routes"]
        paths = {each["path"] for each in routes if each["method"] == "GET"}
        for path, container in containers():
            with self.subTest(path.name):
                port = int(option(container["args"], "port"))
                ports = {each.get("name"): each["containerPort"] for each in container["ports"]}
                self.assertEqual([port], list(ports.values()))
                probes = {name: container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe", "startupProbe") if name in container}
                for name, probe in probes.items():
                    self.assertIn(probe["path"], paths)
                    self.assertEqual(port, ports.get(probe["port"], probe["port"]))
                self.assertEqual("/v2/health/ready", probes["readinessProbe"]["path"])
                self.assertEqual("/v2/health/live", probes["livenessProbe"]["path"])
        self.assertIn(yaml.safe_load(KSERVE[0].read_text())["spec"]["annotations"]["prometheus.kserve.io/path"], paths)

    def test_the_image(self):
        """Its user is that of the manifests, and what it is built from is in the tree."""
        self.assertEqual([f"{USER}:{USER}"], re.findall(r"^USER (.*)$", CONTAINERFILE, re.M))
        self.assertEqual(int(USER), container_of(KSERVE[0])["securityContext"]["runAsUser"])
        deployment = next(each for each in yaml.safe_load_all(PLAIN.read_text()) if each["kind"] == "Deployment")
        self.assertEqual(int(USER), deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"])
        version = re.search(r"^project\(Tenon VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text(), re.M)[1]
        chart = yaml.safe_load((DEPLOY / "helm/tenon/Chart.yaml").read_text())
        self.assertEqual(version, chart["appVersion"])
        for path, container in containers():
            self.assertEqual(f"tenon:{version}", container["image"], path.name)


class Starts(ServingTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder.chmod(0o755)
        engine = cls.folder / "models/cnn.tenon"
        engine.chmod(0o644)
        cls.name = yaml.safe_load((DEPLOY / "kserve/inferenceservice.yaml").read_text())["metadata"]["name"]
        # What storage may hold: an engine of any name, a folder as Triton has it, or the file itself.
        cls.stores = {"file in a folder": cls.folder / "one", "folder as Triton has it": cls.folder / "triton", "file": cls.folder / "as-mounted"}
        cls.stores["file in a folder"].mkdir()
        shutil.copy(engine, cls.folder / "one/best-of-november.tenon")
        (cls.folder / "triton/cnn/1").mkdir(parents=True)
        shutil.copy(engine, cls.folder / "triton/cnn/1/model.tenon")
        (cls.folder / "triton/cnn/config.pbtxt").write_text('name: "cnn"\ndynamic_batching { }\n')
        shutil.copy(engine, cls.stores["file"])
        cls.prefix = AS_POD if can_be_a_pod() else ()

    def start(self, container, models, prefix=None, **paths):
        """A server with the arguments of a container, where only places differ."""
        given = [each.replace("{{.Name}}", self.name).replace("$(CPU_LIMIT)", "1") for each in container["args"][1:]]
        self.assertEqual("/mnt/models", given.pop(0))
        given = [each for each in given if not each.startswith("--port=")]
        for flag, path in paths.items():
            index = next(index for index, each in enumerate(given) if each.startswith(f"--{flag.replace('_', '-')}="))
            given[index] = f"--{flag.replace('_', '-')}={path}"
        return Server(models, *given, prefix=self.prefix if prefix is None else prefix)

    def test_the_runtime_of_kserve(self):
        for path, (form, store) in itertools.product(KSERVE, self.stores.items()):
            container = container_of(path)
            with self.subTest(f"{path.name}, {form}"), self.start(container, store) as server:
                self.assertEqual(200, server.get(container["livenessProbe"]["httpGet"]["path"])[0])
                self.assertEqual(200, server.get(container["readinessProbe"]["httpGet"]["path"])[0])
                status, answer = server.infer(self.name)
                self.assertEqual((200, self.name), (status, answer["model_name"]), answer)
                self.assertEqual([self.name], [row["name"] for row in server.post("/v2/repository/index")[1]])
                self.assertEqual(200, server.post(f"/v2/repository/models/{self.name}/load")[0])
                self.refused(server.infer("cnn"), 404, "TN0810")
                self.assertIn(b"tenon_request", server.get("/metrics")[1])

    def test_the_page(self):
        """docs/guides/deploy.md shows what the runtime starts, and it runs as it stands there."""
        block = re.search(r"^```sh\n(mkdir.*?)^```", (SOURCE / "docs/guides/deploy.md").read_text(), re.M | re.S)[1]
        *before, serve = block.splitlines()
        container = container_of(KSERVE[0])
        words = " ".join(container["args"]).replace("/mnt/models", "models").replace("{{.Name}}", self.name).replace("$(CPU_LIMIT)", "1").split()
        self.assertEqual((["tenon", *words[:2]], set(words[2:])), (serve.split()[:3], set(serve.split()[3:])))
        folder = self.folder / "page"
        folder.mkdir()
        shutil.copy(CNN, folder / "model.onnx")
        environment = {**os.environ, "PATH": f"{TENON.parent}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run(["bash", "-ec", "\n".join(before)], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        with self.start(container, folder / "models", ()) as server:
            self.assertEqual(200, server.infer(self.name)[0])

    def test_a_name_is_of_one_model(self):
        (self.folder / "two").mkdir()
        for name in ("a", "b"):
            shutil.copy(self.stores["file"], self.folder / f"two/{name}.tenon")
        for folder, words in ((self.folder / "two", "TN0804: there are 2 models, but 'fashion' can name only one"), (self.folder / "empty", "TN0804")):
            folder.mkdir(exist_ok=True)
            with self.assertRaisesRegex(RuntimeError, words):
                self.start(container_of(KSERVE[0]), folder)
        with self.assertRaisesRegex(RuntimeError, "TN0105: 'a/b' cannot be the name of a model"):
            Server(self.stores["file"], "--name", "a/b")

    @unittest.skipUnless(os.geteuid() == 0, "files of root's need root")
    def test_the_plain_manifests(self):
        """Tokens as a pod gets them: a link to a file of root's which its group may read."""
        secret = self.folder / "..data"
        secret.mkdir()
        secret.chmod(0o755)
        (secret / "tokens").write_text(f"{TOKEN} infer\n")
        os.chown(secret / "tokens", 0, int(USER))
        (secret / "tokens").chmod(0o440)
        (self.folder / "tokens").symlink_to("..data/tokens")
        container = container_of(PLAIN)
        user = self.prefix or ("setpriv", f"--reuid={USER}", f"--regid={USER}", f"--groups={USER}")
        with self.start(container, self.folder / "models", user, token_file=self.folder / "tokens") as server:
            self.assertEqual(200, server.get(container["readinessProbe"]["httpGet"]["path"])[0])
            self.refused(server.infer(), 401, "TN0815")
            self.assertEqual(200, server.infer(headers={"Authorization": f"Bearer {TOKEN}"})[0])
        for mode in (0o444, 0o460, 0o640 | 0o020):
            (secret / "tokens").chmod(mode)
            with self.subTest(oct(mode)), self.assertRaisesRegex(RuntimeError, "TN0803"):
                self.start(container, self.folder / "models", user, token_file=self.folder / "tokens")
        # Of another owner, or for root itself, the group is as far away as everybody.
        (secret / "tokens").chmod(0o440)
        with self.assertRaisesRegex(RuntimeError, "TN0803"):
            self.start(container, self.folder / "models", (), token_file=self.folder / "tokens")

    @unittest.skipUnless(os.geteuid() == 0, "files of root's need root")
    def test_a_registry_on_a_volume(self):
        """As Kubernetes gives a volume to a pod's group: readable is enough to serve, and what nobody else may read is refused."""
        registry = self.folder / "registry"
        for arguments in (["push", "cnn", self.folder / "models/cnn.tenon"], ["promote", "cnn:1", "production"]):
            subprocess.run([TENON, "registry", *arguments, "--registry", registry, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", f"--groups={USER}", "--no-new-privs")
        with Server("registry:cnn@production", "--registry", registry, prefix=user) as server:
            self.assertEqual(200, server.infer()[0])
        subprocess.run(["chmod", "-R", "o-rwx", registry], check=True)
        with self.assertRaisesRegex(RuntimeError, "TN0109|TN1001"):
            Server("registry:cnn@production", "--registry", registry, prefix=user)
        subprocess.run(["sh", "-c", f"chgrp -R {USER} {registry} && chmod -R g+rwX {registry}"], check=True)
        with Server("registry:cnn@production", "--registry", registry, prefix=user) as server:
            self.assertEqual(200, server.infer()[0])

    def test_the_health_of_the_image(self):
        health = json.loads(re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", CONTAINERFILE, re.M)[1])
        port = re.search(r"^EXPOSE (\d+)$", CONTAINERFILE, re.M)[1]
        self.assertIn(f"/{port} ", health[-1])
        command = json.loads(re.search(r"^CMD (\[.*\])$", CONTAINERFILE, re.M)[1])
        self.assertEqual(["serve", "/mnt/models"], command)
        with Server(self.folder / "models") as server:
            ask = [*health[:-1], health[-1].replace(f"/{port} ", f"/{server.port} ")]
            self.assertEqual(0, subprocess.run(ask, timeout=10).returncode)
        self.assertNotEqual(0, subprocess.run(ask, timeout=10, stderr=subprocess.DEVNULL).returncode)


if __name__ == "__main__":
    unittest.main()
