"""Passes of the user's own, by the examples and by what is refused. Runs in the environment of in_wheel.py."""

import contextlib
import io
import math
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import tenon
from tenon import passes

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"])
MODELS = pathlib.Path(os.environ["TENON_MODELS"])
PICTURES = SOURCE / "models/fashion_cnn.onnx"

sys.path.insert(0, str(SOURCE / "examples"))
import passes as examples  # noqa: E402


def compiled(model, *used, **options):
    return tenon.compile(MODELS / f"{model}.onnx" if isinstance(model, str) else model, passes=used, **options)


def looked(function, model="linear"):
    """What a function finds in the graph of a model."""
    found = []
    compiled(model, passes.rewrite(lambda graph: found.append(function(graph)), name="look"))
    return found[0]


class Examples(unittest.TestCase):
    def test_another_activation(self):
        engine = compiled("linear", examples.relu_to_gelu)
        x = np.random.default_rng(0).standard_normal((4, 8), np.float32)
        product = (x @ np.load(MODELS / "linear.npy")).astype(float)
        gelu = product / 2 * (1 + np.vectorize(math.erf)(product / math.sqrt(2)))
        np.testing.assert_allclose(engine(x), gelu, rtol=1e-5, atol=1e-6)
        report = engine.report["passes"][0]
        self.assertEqual((report["name"], report["phase"], report["edits"]), ("relu-to-gelu", "normalize", 2))
        self.assertGreater(report["largest_change"], 0.001)

    def test_normalization_by_hand(self):
        x = np.random.default_rng(0).standard_normal((2, 1, 28, 28), np.float32)
        plain, folded = tenon.compile(PICTURES), compiled(PICTURES, examples.fold_batch_norm)
        report = folded.report["passes"][0]
        self.assertLess(report["nodes_after"], report["nodes_before"])
        self.assertLess(report["largest_change"], 1e-5)
        np.testing.assert_allclose(folded(x), plain(x), rtol=1e-4, atol=1e-4)

    def test_taps(self):
        engine = compiled("linear", examples.tap_products)
        x = np.random.default_rng(0).standard_normal((3, 8), np.float32)
        y, product = engine(x)
        np.testing.assert_allclose(product, x @ np.load(MODELS / "linear.npy"), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(y, np.maximum(product, 0))
        self.assertEqual([port.name for port in engine.outputs], ["y", "product.0"])

    def test_flops(self):
        counter = examples.CountFlops(batch=10)
        compiled("linear", passes.Pass(counter, "count-flops"))
        self.assertEqual(counter.counts, {"matmul": 2 * 10 * 8 * 3, "relu": 10 * 3})

    def test_another_norm(self):
        engine, plain = compiled("normed", examples.layer_norm_to_rms_norm), compiled("normed")
        x = np.random.default_rng(0).standard_normal((3, 8), np.float32)
        x -= x.mean(axis=1, keepdims=True)
        kinds = looked(lambda graph: [node.op for node in graph.nodes], "normed")
        self.assertIn("layer_norm", kinds)
        # Without a mean the two differ by the bias alone, which no longer is there.
        scale, bias, weight = looked(
            lambda graph: [v.numpy() for v in graph.nodes[[n.op for n in graph.nodes].index("layer_norm")].operands[1:]]
            + [next(graph.match("matmul(_, w)"))["w"].numpy()],
            "normed",
        )
        np.testing.assert_allclose(engine(x), plain(x) - bias @ weight, rtol=1e-3, atol=1e-4)
        self.assertEqual(scale.shape, (8,))

    def test_program(self):
        output, before = io.StringIO(), sys.argv
        sys.argv = ["passes.py", str(PICTURES)]
        try:
            with contextlib.redirect_stdout(output):
                runpy.run_path(str(SOURCE / "examples/passes.py"), run_name="__main__")
        finally:
            sys.argv = before
        self.assertIn("fold-batch-norm", output.getvalue())
        self.assertIn("'conv':", output.getvalue())

    def test_plug_in(self):
        engine = tenon.compile(PICTURES, plugins=[str(BUILD / "lib/example_passes.so")])
        names = [report["name"] for report in engine.report["passes"]]
        self.assertEqual(names, ["count-flops", "fold-batch-norm", "relu-to-gelu"])
        self.assertLess(engine.report["passes"][1]["largest_change"], 1e-5)
        self.assertGreater(engine.report["passes"][2]["largest_change"], 1e-3)
        self.assertEqual([entry["name"] for entry in engine.explain("passes", format="json")["passes"]], names)


class Guide(unittest.TestCase):
    """docs/guides/passes.md runs as it stands, with a model beside it."""

    def blocks(self, kind):
        return "".join(re.findall(rf"^```{kind}\n(.*?)^```", (SOURCE / "docs/guides/passes.md").read_text(), re.M | re.S))

    def output(self, *command):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("include", "examples"):
                (pathlib.Path(folder) / name).symlink_to(SOURCE / name)
            shutil.copy(PICTURES, pathlib.Path(folder) / "model.onnx")
            tool = pathlib.Path(sys.executable).parent
            environment = {**os.environ, "PATH": f"{tool}:{os.environ['PATH']}"}
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_python(self):
        output = self.output(sys.executable, "-c", self.blocks("python"))
        self.assertIn("/stem/stem.0/Conv [1, 1] [32, 1, 3, 3]", output)
        self.assertGreater(float(output.splitlines()[0]), 0.001)

    def test_commands(self):
        output = self.output("bash", "-ec", 'c++() { clang++-22 "$@"; }\n' + self.blocks("sh"))
        self.assertIn("fold-batch-norm (normalize): 40 nodes before, 24 after", output)


class Reading(unittest.TestCase):
    def test_nodes(self):
        found = looked(lambda graph: [(n.op, n.name, [v.dims if v else None for v in n.operands]) for n in graph.nodes])
        self.assertIn(("relu", found[-1][1], [["batch", 3]]), found)
        self.assertEqual([op for op, _, _ in found], ["constant", "matmul", "relu"])

    def test_ports_and_symbols(self):
        inputs, outputs, symbols = looked(
            lambda graph: ({n: v.type for n, v in graph.inputs.items()}, list(graph.outputs), graph.symbols)
        )
        self.assertEqual(inputs, {"x": {"dtype": "f32", "dims": ["batch", 8]}})
        self.assertEqual((outputs, symbols[0]["name"]), (["y"], "batch"))

    def test_neighbours(self):
        def look(graph):
            relu = next(graph.match("relu(x)"))
            product = relu["x"]
            return product.producer.op, product.users == [relu.node], graph.inputs["x"].producer, product.is_constant

        self.assertEqual(looked(look), ("matmul", True, None, False))

    def test_attributes_of_every_kind(self):
        found = looked(lambda graph: {n.op: n.attributes for n in graph.nodes}, PICTURES)
        self.assertEqual(found["conv"]["strides"], [1, 1])
        self.assertEqual((found["conv"]["groups"], found["conv"]["channelsLast"]), (1, False))
        self.assertEqual(found["reduce"]["kind"], "mean")
        self.assertAlmostEqual(found["batch_norm"]["epsilon"], 1e-5)

    def test_patterns(self):
        def count(*patterns):
            return looked(lambda graph: [len(list(graph.match(pattern))) for pattern in patterns], PICTURES)

        self.assertEqual(count("conv(_, _)", "conv(_, constant())", "conv(_)", "conv(_, ...)"), [4, 4, 0, 4])
        self.assertEqual(count("relu|max_pool(_)", "max_pool(relu(_))", "max_pool(_, kernel=[2, 2])"), [6, 1, 2])
        self.assertEqual(count("reduce(_, kind=mean)", "reduce(_, kind=sum)"), [1, 0])
        # The sum of two activations, in either order, and of one with itself.
        self.assertEqual(count("add(relu(_), relu(_))", "add(relu(x), x)", "add(_, constant())"), [1, 0, 1])

    def test_commuting_operands_keep_one_meaning(self):
        def look(graph):
            x = graph.inputs["x"]
            half = graph.constant(np.float32(0.5))
            y = graph.create("mul", half, graph.create("sigmoid", x))
            graph.add_output(y, "probe")
            return [[len(list(graph.match(p)))] for p in ("mul(sigmoid(x), 0.5)", "mul(0.5, sigmoid(x))", "mul(x, x)")]

        self.assertEqual(looked(look, "tiny"), [[1], [1], [0]])


class Refused(unittest.TestCase):
    def setUp(self):
        """What failing passes leave behind is in a folder that goes."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = folder.name

    def fails(self, function, model="linear", **options):
        with self.assertRaises(tenon.Error) as caught:
            compiled(model, passes.rewrite(function, name="broken", **options))
        return caught.exception

    def edit(self, function, model="linear"):
        """The error of an edit in a pass."""
        cause = self.fails(function, model).__cause__
        self.assertIsInstance(cause, tenon.UsageError)
        self.assertEqual(cause.id, "TN0408")
        return str(cause)

    def test_a_pass_that_raises(self):
        error = self.fails(lambda graph: 1 / 0)
        self.assertEqual((error.id, error.code), ("TN0406", 1))
        self.assertIsInstance(error.__cause__, ZeroDivisionError)
        self.assertIn("pass 'broken' (normalize): ZeroDivisionError", str(error))

    def test_numbers_that_change(self):
        def negate(graph):
            for match in graph.match("matmul(x, w)"):
                graph.replace(match.node.result, graph.create("neg", match.node.result))

        error = self.fails(negate)
        self.assertEqual(error.id, "TN0406")
        self.assertRegex(str(error), r"output 'y' changes by \S+ of its largest element, but the pass allows rounding alone")
        self.assertIn("tn.neg", str(error))
        folder = pathlib.Path(str(error).split("the graph before it is in ")[1].split(" ")[0])
        # The graph before the pass is a model that can be compiled again.
        self.assertEqual(tenon.compile(folder / "0-import.mlir").outputs[0].name, "y")
        # By permission it is measured; within a limit too small it is not.
        report = compiled("linear", passes.rewrite(negate, tolerance=math.inf)).report["passes"][0]
        self.assertGreater(report["largest_change"], 0.1)
        self.assertEqual(self.fails(negate, tolerance=1e-3).id, "TN0406")
        self.assertIsNone(compiled("linear", passes.rewrite(negate, tolerance=-1)).report["passes"][0]["largest_change"])

    def test_phases(self):
        seen = {}
        for phase in ("normalize", "optimize"):
            look = passes.rewrite(lambda graph, p=phase: seen.update({p: {n.op for n in graph.nodes}}), name="a", phase=phase)
            compiled(PICTURES, look)
        self.assertIn("batch_norm", seen["normalize"])
        self.assertNotIn("batch_norm", seen["optimize"])
        self.assertEqual(self.fails(lambda graph: None, phase="codegen").id, "TN0105")

    def test_edits(self):
        refused = {
            "no operation is called 'relo'": lambda g: g.create("relo", g.inputs["x"]),
            "did you mean 'relu'": lambda g: g.create("relo", g.inputs["x"]),
            "made of bytes": lambda g: g.create("constant"),
            "requires attribute 'axis'": lambda g: g.create("softmax", g.inputs["x"]),
            "softmax has no attribute 'dim'": lambda g: g.create("softmax", g.inputs["x"], dim=1),
            "softmax does not take \"last\" as 'axis'": lambda g: g.create("softmax", g.inputs["x"], axis="last"),
            "softmax: ": lambda g: g.create("softmax", g.inputs["x"], axis=7),
            "add: ": lambda g: g.create("add", g.inputs["x"]),
            "its result type does not follow": lambda g: g.create("reshape", g.inputs["x"]),
            "no element type is called 'f33'": lambda g: g.create(
                "cast", g.inputs["x"], types=[{"dtype": "f33", "dims": ["batch", 8]}]
            ),
            "dims are not [\"bitch\",8]": lambda g: g.create(
                "cast", g.inputs["x"], types=[{"dtype": "f16", "dims": ["bitch", 8]}]
            ),
            "reshape: ": lambda g: g.create("reshape", g.inputs["x"], types=[{"dtype": "f32", "dims": ["batch", 9]}]),
            "cannot be replaced by": lambda g: g.replace(g.outputs["y"], g.inputs["x"]),
            "the model has an output 'y'": lambda g: g.add_output(g.inputs["x"], "y"),
            "are read": lambda g: g.outputs["y"].producer.erase(),
            "is not a constant": lambda g: g.inputs["x"].numpy(),
            "in the pattern 'relu(' at": lambda g: list(g.match("relu(")),
            "a pattern is an operation": lambda g: list(g.match("x")),
            "did you mean 'sigmoid'": lambda g: list(g.match("add(sigmid(x), _)")),
            "no operation is called 'conv2d', which a pattern names": lambda g: list(g.match("conv|conv2d(x, w, ...)")),
            "constants are matched by constant()": lambda g: list(g.match("relu(weight())")),
            "softmax has no attribute 'axes', which a pattern asks for": lambda g: list(g.match("softmax(x, axes=1)")),
            "has no name 'y'": lambda g: next(g.match("relu(x)"))["y"],
            "has no operand 3": lambda g: g.outputs["y"].producer.set_operand(3, g.inputs["x"]),
            "is made from the results": lambda g: g.outputs["y"].producer.operands[0].producer.set_operand(
                0, g.create("slice", g.create("concat", g.outputs["y"], g.outputs["y"], g.outputs["y"], axis=1),
                            starts=[0, 0], steps=[1, 1], types=[{"dtype": "f32", "dims": ["batch", 8]}])
            ),
            "no symbol 'b'": lambda g: g.nodes[-1].flops(b=1),
        }  # fmt: skip
        for text, function in refused.items():
            with self.subTest(text):
                self.assertIn(text, self.edit(function))

    def test_a_refused_edit_changes_nothing(self):
        def try_it(graph):
            before = [node.id for node in graph.nodes]
            with self.assertRaises(tenon.UsageError):
                graph.create("softmax", graph.inputs["x"], axis=7)
            return before == [node.id for node in graph.nodes]

        self.assertTrue(looked(try_it))

    def test_an_erased_node(self):
        def try_it(graph):
            made = graph.create("relu", graph.inputs["x"]).producer
            result = made.result
            made.erase()
            self.assertIn("was erased", self.raised(lambda: made.op))
            self.assertIn("was erased", self.raised(lambda: result.type))

        looked(try_it)

    def raised(self, function):
        with self.assertRaises(tenon.UsageError) as caught:
            function()
        return str(caught.exception)

    def test_edits_of_every_kind_keep_the_model(self):
        """What each edit promises, on a graph whose numbers then must be the same."""

        def rebuild(graph):
            relu = next(graph.match("relu(p:matmul(x, w))"))
            x = relu["x"]
            # The product of the transposed weight, set by attribute; dims by an expression over the symbol.
            turned = graph.constant(np.ascontiguousarray(relu["w"].numpy().T))
            product = graph.create("matmul", x, turned, transposeB=True, transposeA=False)
            self.assertEqual(product.dims, ["batch", 3])
            flat = graph.create("reshape", product, types=[{"dtype": "f32", "dims": ["3 * batch"]}])
            self.assertEqual(flat.dims, ["3 * batch"] if flat.dims == ["3 * batch"] else ["batch * 3"])
            back = graph.create("reshape", flat, types=[product.type])
            relu.node.set_operand(0, back)
            clamp = graph.create("clamp", graph.outputs["y"], lo=-1.0, hi=float("1e30"))
            clamp.producer.set(lo=0.0)
            graph.replace(graph.outputs["y"], clamp)

        engine = compiled("linear", passes.rewrite(rebuild))
        x = np.random.default_rng(0).standard_normal((3, 8), np.float32)
        np.testing.assert_allclose(engine(x), np.maximum(x @ np.load(MODELS / "linear.npy"), 0), rtol=1e-5, atol=1e-5)

    def test_what_is_kept_of_a_closed_graph(self):
        """Each property and method of each object, read after its pass, in its own process: C is not asked any more."""
        script = """
import inspect, sys, tenon
from tenon import passes
kept = []
@passes.rewrite
def keep(graph):
    node, match = next(n for n in graph.nodes if n.op == "relu"), next(graph.match("relu(x)"))
    kept.extend([graph, node, match, match["x"], graph.constant([1.0])])
tenon.compile(sys.argv[1], passes=[keep])
graph, node, match, value, constant = kept
arguments = {"match": ["relu(x)"], "create": ["neg", value], "constant": [[1.0]], "replace": [value, value], "add_output": [value, "z"],
             "set_operand": [0, value], "__getitem__": ["x"]}
for holder in kept:
    for name in [n for n in dir(type(holder)) if n == "__getitem__" or not n.startswith("_")]:
        given = [value] if isinstance(holder, passes.Match) and name == "replace" else arguments.get(name, [])
        try:
            found = getattr(holder, name)
            found = found(*given) if callable(found) else found
            list(found) if inspect.isgenerator(found) else None
            print("gave", type(holder).__name__, name)
        except tenon.Error as error:
            print(error.id, type(holder).__name__, name)
    print("said", repr(holder))
"""
        run = [sys.executable, "-c", script, str(MODELS / "linear.onnx")]
        done = subprocess.run(run, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual([line for line in lines if line.startswith("gave")], [])
        self.assertGreater(sum(line.startswith("TN0408") for line in lines), 30)
        self.assertEqual(sum("closed graph" in line for line in lines if line.startswith("said")), 3)

    def test_another_thread_is_not_let_in(self):
        found = []

        def look(graph):
            def read():
                try:
                    found.append(graph.nodes)
                except tenon.Error as error:
                    found.append(error.id)

            thread = threading.Thread(target=read)
            thread.start()
            thread.join()

        compiled("linear", passes.rewrite(look))
        self.assertEqual(found, ["TN0408"])

    def test_plug_ins(self):
        for content, text in ((b"", "TN0304"), (b"\x7fELF", "TN0304")):
            path = MODELS / "plugin.so"
            path.write_bytes(content)
            with self.assertRaises(tenon.UnsupportedError) as caught:
                tenon.compile(MODELS / "linear.onnx", plugins=[str(path)])
            self.assertEqual(caught.exception.id, text)
        with self.assertRaises(tenon.UnsupportedError) as caught:  # a shared object that is no plug-in
            tenon.compile(MODELS / "linear.onnx", plugins=[str(BUILD / "lib/libtenon_runtime.so")])
        self.assertIn("does not export tenon_plugin_query", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
