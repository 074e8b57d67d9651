"""The same calls of the same clients against `tenon serve` and a real Triton with Tenon's backend: equal answers, or a difference that is known.

    clients.py [--differences]        with the option, prints every difference instead of testing

Each known difference names its row in docs/guides/serving-triton.md; one that is not seen any more fails too. Skipped where `scripts/setup.sh triton` was
not run. Runs in .venv-serving.
"""

import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import triton
from server import SOURCE, ImageTest, Server

CALLS = pathlib.Path(__file__).with_name("calls.py")
KINDS = ("triton", "kserve", "curl", "perf_analyzer", "broken")

# Calls as a pattern, and how the row of the page begins that says how the answers differ.
DIFFERENCES = {
    "* stats cnn": "statistics of a model without `max_batch_size`",
    "* stats other": "statistics of an unknown model",
    "* classification": "classification",
    "* sequence": "sequences",
    "* system shared memory": "shared memory",
    "* infer unloaded": "an inference of an unloaded model",
    "* load other": "loading an unknown model",
    "kserve rest live": "`/v2/health/live`",
    "kserve rest ready": "`/v2/health/live`",
    "broken index": "the index",
    "broken ready after it": "readiness after a failed load",
    "curl GET /v2/health/*": "`/v2/health/live`",
    "curl GET /v2/models/cnn/ready": "`/v2/health/live`",
    "curl GET /v2/models/other/ready": "readiness of an unknown model",
    "curl GET /v2/nothing": "content type of a reply",
    "curl GET /v2/models/cnn/versions/x": "content type of a reply",
    "curl a header of JSON longer*": "content type of a reply",
    "curl GET of infer": "a wrong method",
    "curl infer with nothing": "an empty body",
    "curl infer with [!n]*": "a malformed body",
    "curl infer with no *": "a malformed body",
}


def ask(kind, http, grpc, image):
    done = subprocess.run([sys.executable, CALLS, kind, http, grpc, image], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def make_models(folder, engine):
    for name, config in {"cnn": "", "batched": "max_batch_size: 8\ndynamic_batching { }\n"}.items():
        (folder / name / "1").mkdir(parents=True)
        shutil.copy(engine, folder / name / "1/model.tenon")
        (folder / name / "config.pbtxt").write_text('backend: "tenon"\n' + config + "instance_group [{ kind: KIND_CPU }]\n")


def make_broken(folder):
    (folder / "broken/1").mkdir(parents=True)
    (folder / "broken/1/model.tenon").write_bytes(b"no engine")
    (folder / "broken/config.pbtxt").write_text('backend: "tenon"\n')


def known(name):
    return [pattern for pattern in DIFFERENCES if fnmatch.fnmatchcase(name, pattern)]


@unittest.skipIf(triton.needed(), triton.needed())
class Comparison(ImageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_models(cls.folder / "repository", cls.folder / "models/cnn.tenon")
        cls.answers = {}
        with Server(cls.folder / "repository", waits=False) as server, triton.Triton(cls.folder / "repository", "--model-control-mode", "explicit", "--load-model", "*") as other:
            server.wait_until(lambda: server.state("cnn") == server.state("batched") == "READY")
            for kind in KINDS:
                if kind == "broken":
                    make_broken(cls.folder / "repository")
                places = {"tenon": [f"127.0.0.1:{server.port}"] * 2, "triton": [f"127.0.0.1:{other.port}", f"127.0.0.1:{other.grpc_port}"]}
                cls.answers[kind] = {name: ask(kind, *place, cls.folder / "image.npy") for name, place in places.items()}

    def differences(self, kind):
        ours, theirs = self.answers[kind]["tenon"], self.answers[kind]["triton"]
        self.assertEqual(list(ours), list(theirs))
        return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}

    def test_answers(self):
        """Those of inferences are the bits of `tenon run`."""
        def numbers(value):
            """The lists of numbers in an answer."""
            if isinstance(value, list) and value and all(isinstance(each, float) for each in value):
                return [value]
            return [found for each in value for found in numbers(each)] if isinstance(value, list) else []

        found = [(name, each) for kind in KINDS for answers in self.answers[kind].values() for name, value in answers.items() for each in numbers(value)]
        self.assertGreater(len(found), 80)
        for name, each in found:
            self.assertEqual(self.expected.ravel().tolist(), each, name)

    def test_differences(self):
        seen, page = set(), (SOURCE / "docs/guides/serving-triton.md").read_text()
        for kind in KINDS:
            for name, (ours, theirs) in self.differences(kind).items():
                self.assertTrue(known(name), f"{name}: Tenon {ours}, Triton {theirs}")
                seen.update(known(name))
        self.assertEqual(set(DIFFERENCES), seen)
        for row in DIFFERENCES.values():
            self.assertIn(f"| {row}", page)

    def test_clients_of_load(self):
        for answers in self.answers["perf_analyzer"].values():
            for name, (code, lines) in answers.items():
                self.assertEqual(0, code, name)
                self.assertIn("Throughput", lines, name)


class Printer(Comparison):
    def test_answers(self):
        for kind in KINDS:
            for name, (ours, theirs) in self.differences(kind).items():
                print(f"{name}\n  tenon  {str(ours)[:600]}\n  triton {str(theirs)[:600]}")

    test_differences = test_clients_of_load = None


def load_tests(loader, *_):
    return loader.loadTestsFromTestCase(Printer if "--differences" in sys.argv else Comparison)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
