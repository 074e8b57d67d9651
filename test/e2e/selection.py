"""Models in which data decides how many elements there are, against ONNX Runtime: with none, some and all selected, on
inputs of several sizes, from one engine. On the target that TENON_TARGET names, else on the CPU.
"""

import os
import sys
import unittest

import numpy as np
import onnx
from microsoft import Builder, by_runtime
from onnx import TensorProto as T
from onnx import helper
from tool import ToolTest

RANDOM = np.random.default_rng(10)
SHARES = ("none", "some", "all")
TARGET = os.environ.get("TENON_TARGET", "cpu:avx2")


class Graph(Builder):
    def add(self, op, inputs, outputs, kind=T.FLOAT, **attributes):
        super().add(op, inputs, outputs, kind, domain="", **attributes)


def detector():
    """Boxes that remain of NonMaxSuppression, their scores, their features by RoiAlign and what follows from both."""
    graph = Graph(opset=18)
    graph.input("boxes", [1, "N", 4])
    graph.input("scores", [1, 3, "N"])
    graph.input("image", [1, 4, 16, 16])
    for name, value in (("most", 5), ("zero", 0), ("one", 1), ("end", -1)):
        graph.constant(name, np.array([value], np.int64))
    graph.constant("overlap", np.array([0.4], np.float32))
    graph.constant("least", np.array([0.6], np.float32))
    graph.constant("grow", np.array([1, 1, 2, 2], np.float32))
    graph.constant("half", np.float32(0.5))
    graph.random("kernel", 6, 4, 3, 3)
    graph.random("weight", 6, 5)
    add = graph.add
    add("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], "picked", T.INT64)
    add("Split", ["picked"], ["batch", "class", "box"], T.INT64, axis=1, num_outputs=3)
    add("Reshape", ["box", "end"], "list", T.INT64)
    add("Squeeze", ["batch", "one"], "batches", T.INT64)
    add("Squeeze", ["boxes", "zero"], "flat")
    add("Gather", ["flat", "list"], "kept", axis=0)
    add("GatherND", ["scores", "picked"], "score")
    add("RoiAlign", ["image", "kept", "batches"], "aligned", output_height=3, output_width=3, sampling_ratio=2)
    add("Conv", ["aligned", "kernel"], "feature")
    add("Flatten", ["feature"], "row")
    add("MatMul", ["row", "weight"], "logit")
    add("Softmax", ["logit"], "share", axis=-1)
    add("ReduceSum", ["share", "zero"], "total", keepdims=0)
    add("Resize", ["aligned", "", "grow"], "grown", mode="nearest")
    # No value leads from here to what decided the size.
    add("Shape", ["score"], "shape", T.INT64)
    add("Expand", ["half", "shape"], "halves")
    add("ConstantOfShape", ["shape"], "zeros")
    return graph


def boxes(count, share):
    corner = RANDOM.random((1, count, 2)) * 10
    scores = RANDOM.random((1, 3, count)) * {"none": 0.5, "some": 1, "all": 0.3}[share] + 0.65 * (share == "all")
    return {"boxes": np.concatenate([corner, corner + 1 + RANDOM.random((1, count, 2)) * 3], 2).astype(np.float32),
            "scores": scores.astype(np.float32),
            "image": RANDOM.standard_normal((1, 4, 16, 16)).astype(np.float32)}


def masks():
    """Selections by one mask of two tensors, and parts of them."""
    graph = Graph(opset=18)
    graph.input("x", ["A", "B"])
    graph.input("y", ["A", "B"])
    graph.input("columns", ["B"], T.BOOL)
    graph.constant("zero", np.array([0], np.int64))
    graph.constant("three", np.array([3], np.int64))
    graph.constant("nothing", np.float32(0))
    add = graph.add
    add("Greater", ["x", "nothing"], "mask", T.BOOL)
    for name in ("x", "y"):
        add("NonZero", ["mask"], f"{name}_at", T.INT64)
        add("Transpose", [f"{name}_at"], f"{name}_rows", T.INT64)
        add("GatherND", [name, f"{name}_rows"], f"{name}_kept")
    add("Add", ["x_kept", "y_kept"], "sum")
    add("Slice", ["sum", "zero", "three", "zero"], "first")
    add("Shape", ["sum"], "count", T.INT64)
    add("Concat", ["count", "three"], "counts", T.INT64, axis=0)
    add("ReduceMin", ["counts"], "fewer", T.INT64)
    add("TopK", ["sum", "fewer"], ["best", "best_at"])
    add("Unique", ["y_kept"], ["values", "at", "inverse", "times"], T.INT64)
    add("Unique", ["y_kept"], ["in_order", "", "", ""], sorted=0)
    add("Compress", ["y", "columns"], "compressed", axis=1)
    for output in graph.outputs:
        kind = {"best_at": T.INT64, "values": T.FLOAT}.get(output.name)
        if kind:
            output.type.tensor_type.elem_type = kind
    return graph


def numbers(rows, columns, share):
    offset = {"none": -9, "some": 0, "all": 9}[share]
    return {"x": (RANDOM.standard_normal((rows, columns)) + offset).astype(np.float32),
            "y": RANDOM.integers(-3, 3, (rows, columns)).astype(np.float32),
            "columns": RANDOM.random(columns) < {"none": 0, "some": 0.5, "all": 2}[share]}


def sums():
    """What is as long as two selections together: products, norms, running sums, pads and scatters."""
    graph = Graph(opset=18)
    graph.input("x", ["A", 3])
    graph.input("y", [4, "B"])
    for name, value in (("zero", [0]), ("pads", [1, 0, 2, 1]), ("repeats", [2, 1]), ("all", [-1]), ("first", 0)):
        graph.constant(name, np.array(value, np.int64))
    graph.constant("scale", np.ones(2, np.float32))
    graph.constant("shift", np.zeros(2, np.float32))
    add = graph.add
    add("NonZero", ["x"], "a", T.INT64)
    add("NonZero", ["y"], "b", T.INT64)
    add("Concat", ["a", "b"], "both", T.INT64, axis=1)
    add("Cast", ["both"], "columns", to=T.FLOAT)
    add("Transpose", ["columns"], "rows", perm=[1, 0])
    add("MatMul", ["rows", "columns"], "likeness")
    add("Softmax", ["likeness"], "share", axis=-1)
    add("MatMul", ["share", "rows"], "mixed")
    add("ReduceSum", ["share"], "total", keepdims=0)
    add("CumSum", ["rows", "zero"], "running")
    add("Greater", ["mixed", "rows"], "is_more", T.BOOL)
    add("Where", ["is_more", "mixed", "rows"], "most")
    add("NonZero", ["is_more"], "where", T.INT64)
    add("Pad", ["rows", "pads"], "padded")
    add("ReduceMax", ["padded"], "largest", keepdims=0)
    add("Tile", ["rows", "repeats"], "twice")
    add("Reshape", ["rows", "all"], "list")
    add("LayerNormalization", ["rows", "scale", "shift"], "norm")
    add("Transpose", ["a"], "places", T.INT64, perm=[1, 0])
    add("Shape", ["places"], "shape", T.INT64)
    add("Gather", ["shape", "first"], "count", T.INT64)
    add("Unsqueeze", ["count", "zero"], "counts", T.INT64)
    add("ConstantOfShape", ["counts"], "zeros")
    add("ScatterND", ["x", "places", "zeros"], "cleared")
    return graph


def branches():
    """Ifs of which data decides the condition and with it the sizes of the results: nothing or a selection, two selections,
    and results that are as long as each other.
    """
    graph = Graph(opset=18)
    graph.input("x", ["A", 3])
    graph.input("y", ["B", 3])
    graph.constant("none", np.zeros((0, 3), np.float32))
    graph.constant("zero", np.array([0], np.int64))
    add = graph.add
    add("NonZero", ["x"], "at", T.INT64)
    add("Shape", ["at"], "sizes", T.INT64)
    add("ReduceProd", ["sizes"], "product", T.INT64, keepdims=0)
    graph.constant("no", np.array(0, np.int64))
    add("Equal", ["product", "no"], "is_empty", T.BOOL)

    def branch(*nodes, outputs):
        return helper.make_graph(list(nodes), "branch", [], [helper.make_empty_tensor_value_info(name) for name in outputs])

    make = helper.make_node
    add("If", ["is_empty"], ["kept", "scaled"],
        then_branch=branch(make("Identity", ["none"], ["a"]), make("Identity", ["none"], ["b"]), outputs=["a", "b"]),
        else_branch=branch(make("Identity", ["x"], ["c"]), make("Add", ["x", "x"], ["d"]), outputs=["c", "d"]))
    add("Sub", ["scaled", "kept"], "difference")
    add("If", ["is_empty"], "longer",
        then_branch=branch(make("Concat", ["y", "x"], ["e"], axis=0), outputs=["e"]),
        else_branch=branch(make("Neg", ["y"], ["f"]), outputs=["f"]))
    add("ReduceSum", ["longer", "zero"], "total", keepdims=0)
    return graph


def lists(rows, columns, share):
    x = RANDOM.random((rows, 3)) * (share != "none")
    return {"x": x.astype(np.float32), "y": RANDOM.random((columns, 3)).astype(np.float32)}


def best(count):
    """The best of a list that data selects, up to as many as it has."""
    graph = Graph(opset=18)
    graph.input("x", ["A"])
    graph.constant("nothing", np.float32(0))
    graph.constant("most", np.array([count], np.int64))
    add = graph.add
    add("Greater", ["x", "nothing"], "mask", T.BOOL)
    add("Compress", ["x", "mask"], "kept")
    add("Shape", ["kept"], "size", T.INT64)
    add("Concat", ["size", "most"], "sizes", T.INT64, axis=0)
    add("ReduceMin", ["sizes"], "fewer", T.INT64)
    add("TopK", ["kept", "fewer"], ["best", "best_at"])
    graph.outputs[-1].type.tensor_type.elem_type = T.INT64
    return graph


def sparse(rows, columns, share):
    likely = {"none": 0, "some": 0.5, "all": 2}[share]
    part = lambda *dims: ((RANDOM.random(dims) < likely) * RANDOM.random(dims)).astype(np.float32)
    return {"x": part(rows, 3), "y": part(4, columns)}


def unique(kind, is_sorted):
    graph = Graph(opset=18)
    graph.input("x", ["A"], kind)
    graph.add("Unique", ["x"], ["values", "at", "inverse", "times"], T.INT64, sorted=int(is_sorted))
    graph.outputs[0].type.tensor_type.elem_type = kind
    return graph


def unique_by_numpy(x, is_sorted):
    values, at, inverse, times = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    if not is_sorted:
        order = np.argsort(at)
        values, at, times, inverse = values[order], at[order], times[order], np.argsort(order)[inverse]
    return {"values": values, "at": at, "inverse": inverse, "times": times}


def computed():
    """Sizes that data computes within bounds: the longest of masked rows, and the lesser of a number and a size."""
    graph = Graph(opset=18)
    graph.input("x", ["A", "B"])
    graph.input("n", [], T.INT64)
    for name, value in (("zero", 0), ("one", 1), ("most", 40), ("down", -2), ("axis", [1]), ("front", [0]), ("four", [4]), ("front_one", [1]), ("all", [-1])):
        graph.constant(name, np.array(value, np.int64))
    graph.constant("nothing", np.float32(0))
    add = graph.add
    add("Greater", ["x", "nothing"], "mask", T.BOOL)
    add("Cast", ["mask"], "ones", T.INT64, to=T.INT64)
    add("ReduceSum", ["ones", "axis"], "lengths", T.INT64, keepdims=0)
    add("ReduceMax", ["lengths"], "longest", T.INT64, keepdims=0)
    add("Range", ["zero", "longest", "one"], "places", T.INT64)
    add("Unsqueeze", ["lengths", "axis"], "column", T.INT64)
    add("Less", ["places", "column"], "inside", T.BOOL)
    add("Min", ["n", "most"], "few", T.INT64)
    add("Unsqueeze", ["few", "front"], "few_list", T.INT64)
    add("Concat", ["few_list", "four"], "wanted", T.INT64, axis=0)
    add("ConstantOfShape", ["wanted"], "zeros")
    add("Range", ["zero", "few", "one"], "rows", T.INT64)
    add("Unsqueeze", ["rows", "axis"], "row_column", T.INT64)
    add("Cast", ["row_column"], "numbers", to=T.FLOAT)
    add("Add", ["zeros", "numbers"], "sum")
    add("Expand", ["nothing", "wanted"], "spread")
    add("Range", ["few", "zero", "down"], "falling", T.INT64)
    add("Reshape", ["sum", "all"], "list")
    add("Concat", ["four", "few_list"], "turned", T.INT64, axis=0)
    add("Reshape", ["sum", "turned"], "reshaped", allowzero=1)
    add("Concat", ["front_one", "few_list"], "repeats", T.INT64, axis=0)
    add("Tile", ["sum", "repeats"], "repeated")
    return graph


def slices():
    """Slices from and up to where data says, forwards, backwards and past the ends."""
    graph = Graph(opset=18)
    graph.input("x", ["A", "B"])
    graph.input("start", [1], T.INT64)
    graph.input("end", [1], T.INT64)
    for name, value in (("zero", [0]), ("one", [1]), ("axes", [1, 0]), ("steps", [2, 1]), ("back", [-1]), ("open", [1 << 62])):
        graph.constant(name, np.array(value, np.int64))
    add = graph.add
    add("Slice", ["x", "start", "open"], "rest")
    add("Slice", ["x", "zero", "end", "one"], "front")
    add("Slice", ["x", "start", "end", "zero", "back"], "reversed")
    add("Concat", ["start", "zero"], "starts", T.INT64, axis=0)
    add("Concat", ["end", "end"], "ends", T.INT64, axis=0)
    add("Slice", ["x", "starts", "ends", "axes", "steps"], "both")
    add("ReduceSum", ["rest", "zero"], "total", keepdims=0)
    return graph


def choices():
    """An If whose branches' results differ in two dims, one of which may be empty."""
    graph = Graph(opset=18)
    graph.input("x", ["A", "B"])
    graph.input("y", [3, "C"])
    graph.input("is_first", [], T.BOOL)
    make = helper.make_node
    empty = lambda *names: [helper.make_empty_tensor_value_info(name) for name in names]
    graph.add("If", ["is_first"], ["z", "w"],
              then_branch=helper.make_graph([make("Neg", ["x"], ["a"]), make("Abs", ["x"], ["b"])], "then", [], empty("a", "b")),
              else_branch=helper.make_graph([make("Identity", ["y"], ["c"]), make("Exp", ["y"], ["d"])], "else", [], empty("c", "d")))
    graph.add("Add", ["z", "w"], "sum")
    return graph


class Selection(ToolTest):
    def compare(self, name, graph, feeds, *options):
        model = graph.model()
        onnx.save(model, self.folder / f"{name}.onnx")
        self.succeed("compile", f"{name}.onnx", "-o", f"{name}.tenon", "--target", TARGET, *options)
        for feed in feeds:
            np.savez(self.folder / "in.npz", **feed)
            self.succeed("run", f"{name}.tenon", "--inputs", "in.npz", "-o", "out.npz")
            actual = np.load(self.folder / "out.npz")
            for value, wanted in zip(graph.outputs, by_runtime(model, feed)):
                with self.subTest(model=name, output=value.name):
                    self.assertEqual(wanted.shape, actual[value.name].shape)
                    np.testing.assert_allclose(actual[value.name], wanted, rtol=2e-5, atol=2e-5)

    def test_detector(self):
        feeds = [boxes(count, share) for count in (1, 7, 64) for share in SHARES]
        self.compare("detector", detector(), feeds, "--verify")

    def test_masks(self):
        feeds = [numbers(*size, share) for size in ((2, 3), (1, 1), (4, 9)) for share in SHARES]
        self.compare("masks", masks(), feeds, "--verify")

    def test_sums(self):
        feeds = [sparse(*size, share) for size in ((2, 3), (7, 1), (4, 4)) for share in SHARES]
        self.compare("sums", sums(), feeds, "--verify")

    def test_compiles_for_gpus(self):
        for name, graph in (("detector", detector()), ("masks", masks()), ("sums", sums()), ("computed", computed()), ("slices", slices()),
                            ("choices", choices())):
            onnx.save(graph.model(), self.folder / f"{name}.gpu.onnx")
            self.succeed("check", f"{name}.gpu.onnx", "--target", "cuda:sm_90")
            self.succeed("compile", f"{name}.gpu.onnx", "-o", f"{name}.gpu.tenon", "--target", "cuda:sm_80,cuda:sm_90")
            self.assertIn("decided by data", self.succeed("inspect", f"{name}.gpu.tenon", "--all").stdout)

    def test_branches(self):
        feeds = [lists(*size, share) for size in ((2, 3), (7, 1), (4, 4)) for share in ("none", "all")]
        self.compare("branches", branches(), feeds, "--verify")

    def test_computed(self):
        feeds = [dict(x=numbers(a, b, share)["x"], n=np.array(n)) for a, b, n in ((3, 7, 0), (1, 4, 5), (6, 2, 99)) for share in SHARES]
        self.compare("computed", computed(), feeds, "--verify")

    def test_slices(self):
        for a, b in ((5, 8), (1, 3), (9, 2)):
            x = RANDOM.random((a, b)).astype(np.float32)
            feeds = [{"x": x, "start": np.array([s]), "end": np.array([e])} for s in (0, 2, -1, -40, 50) for e in (0, 1, -1, 4, 50, -50)]
            self.compare("slices", slices(), feeds if a == 5 else feeds[::4])

    def test_choices(self):
        feeds = [{"x": RANDOM.random((a, b)).astype(np.float32), "y": RANDOM.random((3, c)).astype(np.float32), "is_first": np.array(first)}
                 for a, b, c in ((2, 5, 4), (4, 3, 6), (3, 1, 1)) for first in (True, False)]
        self.compare("choices", choices(), feeds, "--verify")

    def test_a_branch_for_one_size(self):
        """What a traced squeeze becomes: its branch asks for a size of 1, which the other runs need not have."""
        make = helper.make_node
        empty = lambda name: [helper.make_empty_tensor_value_info(name)]
        graph = Graph(opset=18)
        graph.input("x", ["A", "B", 3])
        graph.constant("one", np.array([1], np.int64))
        graph.add("Shape", ["x"], "size", T.INT64, start=1, end=2)
        graph.add("Equal", ["size", "one"], "is_one", T.BOOL)
        graph.add("If", ["is_one"], "squeezed",
                  then_branch=helper.make_graph([make("Squeeze", ["x", "one"], ["a"])], "then", [], empty("a")),
                  else_branch=helper.make_graph([make("Identity", ["x"], ["b"])], "else", [], empty("b")))
        graph.add("Relu", ["squeezed"], "y")
        self.compare("squeeze", graph, [{"x": RANDOM.standard_normal((a, b, 3)).astype(np.float32)} for a, b in ((2, 4), (1, 7))])
        np.savez(self.folder / "in.npz", x=np.zeros((2, 1, 3), np.float32))
        self.assertIn("_branch", self.refuse(5, "TN0611", "run", "squeeze.tenon", "--inputs", "in.npz", "-o", "out.npz").stderr)

    def test_rank_as_stated(self):
        """The branch of the stated rank is imported, and a run that takes the other one is refused in words."""
        make = helper.make_node
        empty = lambda name: [helper.make_empty_tensor_value_info(name)]
        graph = Graph(opset=18)
        graph.input("x", ["A", "B", 3])
        graph.constant("one", np.array([1], np.int64))
        graph.constant("all", np.array([-1], np.int64))
        graph.add("Shape", ["x"], "size", T.INT64, start=1, end=2)
        graph.add("Equal", ["size", "one"], "is_one", T.BOOL)
        graph.add("If", ["is_one"], "squeezed",
                  then_branch=helper.make_graph([make("Reshape", ["x", "all"], ["a"])], "then", [], empty("a")),
                  else_branch=helper.make_graph([make("Identity", ["x"], ["b"])], "else", [], empty("b")))
        graph.outputs[-1].CopyFrom(helper.make_tensor_value_info("squeezed", T.FLOAT, [None, None, None]))
        self.compare("ranks", graph, [{"x": RANDOM.random((2, 4, 3)).astype(np.float32)}])
        np.savez(self.folder / "in.npz", x=np.zeros((2, 1, 3), np.float32))
        self.assertIn("_branch", self.refuse(5, "TN0611", "run", "ranks.tenon", "--inputs", "in.npz", "-o", "out.npz").stderr)

    def test_best(self):
        feeds = [{"x": RANDOM.integers(-9, 9, size).astype(np.float32) + offset}
                 for size in (1, 2, 17, 3000) for offset in (-9, 0, 9)]
        self.compare("best", best(20), feeds, "--verify")

    def test_unique(self):
        special = np.array([2, np.nan, 0, -0.0, 2, np.nan, -np.inf, 0, np.inf], np.float32)
        lists = [(T.FLOAT, special), (T.FLOAT, special[:1]), (T.BOOL, RANDOM.random(50) < 0.5),
                 (T.INT64, RANDOM.integers(-(1 << 40), 1 << 40, 40)[RANDOM.integers(0, 40, 300)]),
                 (T.UINT8, RANDOM.integers(0, 256, 60000).astype(np.uint8))]  # by comparing all with all: 4 * 10^9 steps
        for number, (kind, x) in enumerate(lists):
            for is_sorted in (False, True):
                onnx.save(unique(kind, is_sorted).model(), self.folder / "unique.onnx")
                np.savez(self.folder / "in.npz", x=x)
                self.succeed("run", "unique.onnx", "--inputs", "in.npz", "-o", "out.npz")
                actual = np.load(self.folder / "out.npz")
                for name, wanted in unique_by_numpy(x, is_sorted).items():
                    with self.subTest(list=number, is_sorted=is_sorted, output=name):
                        np.testing.assert_array_equal(actual[name], wanted)


if __name__ == "__main__":
    sys.exit(unittest.main())
