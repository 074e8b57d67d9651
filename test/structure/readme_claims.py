"""Checks what README says that Tenon cannot do, and how large the runtime is: `readme_claims.py [RUNTIME STRIP]`.

Relies on the tables below: the first says for each claim what would make it untrue, by what `tenon help --json` says that there is, the second has commands that try it, and how Tenon refuses them. A sentence of the
section that no row is about is a fault, so that each new claim gets rows. A row outlives its claim: where what makes it untrue exists, README may not say it any more.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import onnx
from onnx import TensorProto, helper

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
TENON = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "bin/tenon"
RUNTIME, STRIP = sys.argv[1:] or ("", "")
SECTION = "## What it cannot do"

# What a claim says, as a pattern, and what makes it untrue: "verb VERB", "VERB --flag", "VERB --flag=CHOICE", "VERB --flag ~ WORD" for a word of the flag's help, "metric NAME" of the server,
# "page PATH" for a file of docs by a glob, "page PATH # HEADING" for a part of one.
CLAIMS = [
    (r"AMD's or Intel's GPUs", ["compile --target ~ rocm", "compile --target ~ hip", "compile --target ~ xpu", "page docs/measurements/*amd-gpu*.md"]),
    (r"Windows or macOS", ["page docs/guides/installing.md # Windows", "page docs/guides/installing.md # macOS"]),
    (r"no Arm machine has been measured", ["page docs/measurements/*arm-machine*.md", "page docs/measurements/*graviton*.md"]),
    (r"Train\.", ["verb train", "verb finetune"]),
    (r"Read images in chats", ["page docs/guides/*images*.md", "page docs/guides/serving-language-models.md # Images"]),
    (r"does not batch|neither batches|without batching", ["page docs/guides/serving.md # Batches of requests", "serve --max-batch"]),
    (r"budget of memory|memory budget", ["serve --memory-budget", "serve --gpu-memory-budget", "metric tenon_memory_budget_bytes"]),
    (r"Handle strings", ["page docs/**/strings.md", "run --strings"]),
    (r"sequences as inputs or outputs", ["page docs/**/sequences.md"]),
    (r"no known bound on their iterations", ["compile --max-iterations", "run --max-iterations"]),
    (r"Quantize to 8 bits while it compiles", ["compile --precision=int8", "compile --allow=int8", "compile --data"]),
    (r"train a pruned model on", ["prune --data", "prune --epochs"]),
    (r"cannot quantize", ["verb quantize"]),
    (r"cannot prune", ["verb prune"]),
]

# A claim, a command that tries what Tenon cannot do, and the error that refuses it; "" where the claim is that it works. MODEL is the small CNN, the models by other names are made below.
TRIED = [
    (r"AMD's or Intel's GPUs", "compile MODEL --target rocm -o x.tenon", "TN0302"),
    (r"AMD's or Intel's GPUs", "compile MODEL --target xpu -o x.tenon", "TN0302"),
    (r"Windows or macOS", "compile MODEL --target windows -o x.tenon", "TN0302"),
    (r"compiles for Arm", "compile small.onnx --target cpu:armv8-a -o arm.tenon", ""),
    (r"Train\.", "train MODEL", "TN0105"),
    (r"train a pruned model on", "prune MODEL --epochs 1 -o x.onnx", "TN0105"),
    (r"Read images in chats", "serve MODEL --images", "TN0105"),
    (r"Handle strings", "check strings.onnx", "TN0301"),
    (r"sequences as inputs", "check sequences.onnx", "TN0301"),
    (r"no known bound on their iterations", "check loop.onnx", "TN0301"),
    (r"Quantize to 8 bits while it compiles", "compile MODEL --precision int8 -o x.tenon", "TN0105"),
]


def write_models(folder):
    """Models that take strings or sequences, or loop until data end it, and one that is small."""
    tensor, sequence = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
    result = tensor("y", TensorProto.FLOAT, [2])
    # A long body: a loop is refused after so many nodes, and a short one would be repeated for ten seconds first.
    chain = [helper.make_node("Sigmoid", [f"v{number}"], [f"v{number + 1}"]) for number in range(300)]
    decides = [helper.make_node("ReduceMax", ["v300"], ["m"], keepdims=0), helper.make_node("Cast", ["m"], ["goes"], to=TensorProto.BOOL)]
    body = helper.make_graph(
        [*chain, *decides], "body", [tensor("i", TensorProto.INT64, []), tensor("c", TensorProto.BOOL, []), tensor("v0", TensorProto.FLOAT, [2])],
        [tensor("goes", TensorProto.BOOL, []), tensor("v300", TensorProto.FLOAT, [2])])
    graphs = {
        "small": ([helper.make_node("Relu", ["x"], ["y"])], tensor("x", TensorProto.FLOAT, [2]), result, []),
        "strings": ([helper.make_node("Identity", ["x"], ["y"])], tensor("x", TensorProto.STRING, [2]), tensor("y", TensorProto.STRING, [2]), []),
        "sequences": ([helper.make_node("SequenceAt", ["x", "i"], ["y"])], sequence("x", TensorProto.FLOAT, [2]), result, [helper.make_tensor("i", TensorProto.INT64, [], [0])]),
        "loop": ([helper.make_node("Loop", ["", "true", "x"], ["y"], body=body)], tensor("x", TensorProto.FLOAT, [2]), result, [helper.make_tensor("true", TensorProto.BOOL, [], [True])]),
    }
    for name, (nodes, given, gives, constants) in graphs.items():
        model = helper.make_model(helper.make_graph(nodes, name, [given], [gives], constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, folder / f"{name}.onnx")


def trial_faults(trials, folder):
    """The trials that do not end as they are said to."""
    found = []
    for claim, command, error in trials:
        words = [str(SOURCE / "models/fashion_cnn.onnx") if word == "MODEL" else word for word in command.split()]
        done = subprocess.run([TENON, *words], cwd=folder, capture_output=True, text=True, timeout=60, env={**os.environ, "XDG_CACHE_HOME": str(folder)})
        if (done.returncode != 0, re.findall(r"^error (TN\d+)", done.stderr, re.M)) != (bool(error), [error] if error else []):
            found.append(f"'{claim}': tenon {command} ends with {done.returncode}: {done.stderr}")
    return found


class Known:
    """What exists: verbs with their flags, metrics of the server, pages."""

    def __init__(self, verbs, metrics, source):
        self.flags, self.metrics, self.source = {}, metrics, source
        self.add(verbs)

    def add(self, verbs):
        for verb in verbs:
            self.flags[verb["verb"]] = {name: flag for flag in verb["flags"] for name in flag["names"]}
            self.add(verb["verbs"])

    def exists(self, witness):
        kind, _, rest = witness.partition(" ")
        if kind == "verb":
            return rest in self.flags
        if kind == "metric":
            return rest in self.metrics
        if kind == "page":
            pattern, _, heading = rest.partition(" # ")
            return any(re.search(rf"^#+ {re.escape(heading)}", page.read_text(), re.M) for page in self.source.glob(pattern))
        verb, _, rest = witness.partition(" --")
        name, choice, word = re.fullmatch(r"([\w-]+)(?:=(.+)| ~ (.+))?", rest).groups()
        flag = self.flags[verb].get(f"--{name}")
        return flag is not None and (choice is None or choice in flag["choices"]) and (word is None or word in flag["help"].lower())


def sentences(readme):
    """Those of the section, a bullet's apart from the next one's."""
    section = readme.split(SECTION + "\n")[1].split("\n## ")[0]
    bullets = re.findall(r"^- (.*(?:\n  .*)*)", section, re.M)
    return [sentence for bullet in bullets for sentence in re.split(r"(?<=\.) ", " ".join(bullet.split()))]


def faults(readme, known):
    found = []
    for sentence in sentences(readme):
        rows = [(claim, witnesses) for claim, witnesses in CLAIMS if re.search(claim, sentence)]
        if not rows:
            found.append(f"no row says what would make this untrue: {sentence}")
        found += [f"'{claim}' is untrue, there is {witness}: {sentence}" for claim, witnesses in rows for witness in witnesses if known.exists(witness)]
    return found


def size_fault(readme, size):
    said = re.search(r"runtime library \((\d+) kB\)", readme)
    if not said:
        return "README does not say how large the runtime library is"
    return "" if abs(int(said[1]) * 1000 / size - 1) <= 0.02 else f"README says {said[1]} kB of a runtime with {size} bytes"


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.readme = (SOURCE / "README.md").read_text()
        verbs = json.loads(subprocess.run([TENON, "help", "--json"], capture_output=True, check=True).stdout)["verbs"]
        metrics = {name for file in (SOURCE / "server").rglob("*.cpp") for name in re.findall(r'"(tenon_[a-z_]+)', file.read_text())}
        cls.known = Known(verbs, metrics, SOURCE)

    def test_claims_are_true(self):
        self.assertGreater(len(sentences(self.readme)), 5)
        self.assertEqual([], faults(self.readme, self.known))

    def test_tenon_refuses(self):
        """What README says that Tenon cannot do is tried, and refused."""
        said = sentences(self.readme)
        self.assertEqual([], [sentence for sentence in said if not any(re.search(claim, sentence) for claim, _, _ in TRIED)])
        self.assertEqual([], [claim for claim, _, _ in TRIED if not any(re.search(claim, sentence) for sentence in said)])
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_models(folder)
            self.assertEqual([], trial_faults(TRIED, folder))
            planted = [("check works", "check MODEL", "TN0301"), ("check refuses", "check strings.onnx", ""), ("by another error", "train MODEL", "TN0301")]
            self.assertEqual(3, len(trial_faults(planted, folder)))

    def test_rows_are_in_use(self):
        """Each row is of a claim that README makes, or of one that it may not make."""
        said = " ".join(sentences(self.readme))
        self.assertEqual([], [claim for claim, witnesses in CLAIMS if not re.search(claim, said) and not any(map(self.known.exists, witnesses))])

    def test_planted(self):
        """A false claim is found by a verb, a flag, a choice, a word, a metric and a page; a claim without a row is found too."""
        def planted(text):
            return faults(f"{SECTION}\n\n- Train.\n- {text}\n", self.known)

        self.assertTrue(planted("[`tenon serve`](docs/guides/serving.md) does not batch requests or keep to a budget of memory yet."))
        self.assertEqual(1, len(planted("It does not batch requests.")))
        self.assertEqual(3, len(planted("There is no memory budget.")))
        self.assertEqual(1, len(planted("It cannot quantize.")))
        self.assertEqual(["no row says what would make this untrue: Sing."], planted("Sing."))
        for witness in ("verb registry push", "serve --memory-budget", "compile --precision=fp16", "compile --target ~ cuda", "metric tenon_memory_budget_bytes", "page docs/guides/serving.md # Batches"):
            self.assertTrue(self.known.exists(witness), witness)
        for witness in ("verb sing", "serve --sing", "compile --precision=int3", "compile --target ~ rocm", "metric tenon_songs", "page docs/guides/serving.md # Songs", "page docs/**/songs*.md"):
            self.assertFalse(self.known.exists(witness), witness)

    @unittest.skipUnless(RUNTIME, "no library of the runtime is given")
    def test_size_of_the_runtime(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([STRIP, "-o", f"{folder}/runtime.so", RUNTIME], check=True)
            size = os.path.getsize(f"{folder}/runtime.so")
        self.assertEqual("", size_fault(self.readme, size))
        self.assertIn("bytes", size_fault(self.readme, size * 1.05))
        self.assertIn("bytes", size_fault(self.readme, size * 0.95))
        self.assertIn("does not say", size_fault("", size))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
