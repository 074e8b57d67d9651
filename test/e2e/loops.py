"""Loops and sequences as exporters write them, against ONNX Runtime: compiled once, run with several inputs."""

import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from tool import ToolTest

RANDOM = np.random.default_rng(5)


def info(name, kind=T.FLOAT, dims=None):
    return helper.make_tensor_value_info(name, kind, dims)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name=outputs.split()[0], **attributes)


def graph(nodes, inputs, outputs, **constants):
    values = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    return helper.make_graph(nodes, "g", inputs, outputs, values)


class Loops(ToolTest):
    def compare(self, name, graph, feeds, *shapes):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(model, self.folder / f"{name}.onnx")
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        ranges = [word for shape in shapes for word in ("--shape", shape)]
        self.succeed("compile", f"{name}.onnx", "-o", f"{name}.tenon", "--target", "cpu:avx2", *ranges)
        for feed in feeds:
            np.savez(self.folder / "in.npz", **feed)
            self.succeed("run", f"{name}.tenon", "--inputs", "in.npz", "-o", "out.npz")
            actual = np.load(self.folder / "out.npz")
            for output, wanted in zip(graph.output, session.run(None, feed)):
                self.assertEqual((wanted.shape, wanted.dtype), (actual[output.name].shape, actual[output.name].dtype))
                np.testing.assert_allclose(actual[output.name], wanted, rtol=2e-5, atol=2e-5)

    def test_chunks_of_frames(self):
        """A video in chunks of 4 frames, each through a projection, collected in a sequence."""
        body = graph([node("Mul", "i four", "start"), node("Add", "start four", "end"),
                      node("Unsqueeze", "start zero", "starts"), node("Unsqueeze", "end zero", "ends"),
                      node("Slice", "video starts ends one", "chunk"), node("MatMul", "chunk weight", "projected"),
                      node("ReduceMean", "projected", "mean", axes=[1], keepdims=1),
                      node("Sub", "projected mean", "centered"),
                      node("SequenceInsert", "list centered", "longer"), node("Identity", "go", "more")],
                     [info("i", T.INT64, []), info("go", T.BOOL, []), helper.make_tensor_sequence_value_info("list", T.FLOAT, None)],
                     [info("more", T.BOOL, []), helper.make_tensor_sequence_value_info("longer", T.FLOAT, None)],
                     four=np.int64(4), zero=np.array([0]), one=np.array([1]),
                     weight=RANDOM.standard_normal((8, 16)).astype(np.float32))
        frames = node("Gather", "shape one", "frames", axis=0)
        whole = graph([node("Shape", "video", "shape"), frames, node("Div", "frames four", "chunks"),
                       node("SequenceEmpty", "", "none"), node("Loop", "chunks go none", "lists", body=body),
                       node("ConcatFromSequence", "lists", "y", axis=1), node("SequenceLength", "lists", "count"),
                       node("SequenceAt", "lists last", "z")],
                      [info("video", dims=["batch", 12, 5, 8])],
                      [info("y"), info("count", T.INT64, []), info("z")],
                      one=np.int64(1), four=np.int64(4), go=np.array(True), last=np.int64(-1))
        feeds = [{"video": RANDOM.standard_normal((n, 12, 5, 8)).astype(np.float32)} for n in (1, 3)]
        self.compare("chunks", whole, feeds, "video:[1..4]x12x5x8")

    def test_a_condition_of_data(self):
        """Newton's iteration for square roots until it is exact enough, at most 12 times."""
        body = graph([node("Div", "x a", "ratio"), node("Add", "a ratio", "sum"), node("Mul", "sum half", "b"),
                      node("Sub", "b a", "step"), node("Abs", "step", "size"), node("ReduceMax", "size", "largest", keepdims=0),
                      node("Greater", "largest limit", "more"), node("Add", "n one", "m")],
                     [info("i", T.INT64, []), info("go", T.BOOL, []), info("a"), info("n", T.INT64, [])],
                     [info("more", T.BOOL, []), info("b"), info("m", T.INT64, [])],
                     half=np.float32(0.5), one=np.int64(1))
        whole = graph([node("Greater", "limit none", "start"), node("Loop", "most start x zero", "root steps", body=body)],
                      [info("x", dims=["n"]), info("limit", dims=[])], [info("root"), info("steps", T.INT64, [])],
                      most=np.int64(12), none=np.float32(0), zero=np.int64(0))
        feeds = [{"x": RANDOM.uniform(1, 9, n).astype(np.float32), "limit": np.array(limit, np.float32)}
                 for n, limit in ((7, 0.5), (3, 1e-3), (5, 1e-30), (4, -1))]
        self.compare("newton", whole, feeds, "x:[1..8]")

    def test_as_many_iterations_as_the_input_is_long(self):
        """A recurrence over the steps of x by a Loop whose trip count is a size, with a scan output."""
        body = graph([node("Gather", "x i", "row", axis=0), node("MatMul", "h weight", "turned"),
                      node("Add", "turned row", "sum"), node("Tanh", "sum", "next"), node("Identity", "next", "out"),
                      node("Identity", "go", "more")],
                     [info("i", T.INT64, []), info("go", T.BOOL, []), info("h", dims=[2, 6])],
                     [info("more", T.BOOL, []), info("next", dims=[2, 6]), info("out", dims=[2, 6])],
                     weight=RANDOM.standard_normal((6, 6)).astype(np.float32))
        nodes = [node("Shape", "x", "shape"), node("Gather", "shape zero", "length", axis=0),
                 node("Loop", "length go h0", "last all", body=body)]
        whole = graph(nodes, [info("x", dims=["length", 2, 6]), info("h0", dims=[2, 6])], [info("last"), info("all")],
                      zero=np.int64(0), go=np.array(True))
        feeds = [{"x": RANDOM.standard_normal((n, 2, 6)).astype(np.float32), "h0": np.ones((2, 6), np.float32)}
                 for n in (1, 3, 5)]
        self.compare("recurrence", whole, feeds, "x:[1..5]x2x6")

    def test_scan_and_map(self):
        """A Scan backwards over an axis, and a map over the parts of a tensor."""
        step = graph([node("Mul", "h decay", "kept"), node("Add", "kept e", "next"), node("Relu", "next", "out")],
                     [info("h", dims=[3]), info("e", dims=[3])], [info("next", dims=[3]), info("out", dims=[3])],
                     decay=np.float32(0.5))
        each = graph([node("Softmax", "part", "share", axis=-1), node("Add", "share last", "moved")],
                     [info("part"), info("last")], [info("moved")])
        whole = graph([node("Scan", "h0 x", "last all", body=step, num_scan_inputs=1, scan_input_axes=[1],
                            scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1]),
                       node("SplitToSequence", "all sizes", "parts", axis=1),
                       node("SequenceMap", "parts one", "moved", body=each),
                       node("ConcatFromSequence", "moved", "y", axis=1)],
                      [info("x", dims=[3, 6]), info("h0", dims=[3])], [info("last"), info("all"), info("y")],
                      sizes=np.array([1, 2, 3]), one=np.float32(1))
        feeds = [{"x": RANDOM.standard_normal((3, 6)).astype(np.float32), "h0": np.ones(3, np.float32)}]
        self.compare("scan", whole, feeds)

    def test_a_list_that_grows_until_data_ends_it(self):
        """A decoding loop: each iteration appends to a list, and a counter or the data ends it."""
        counted = graph([node("Less", "d most", "few")], [], [info("few", T.BOOL, [])])
        stopped = graph([node("Identity", "false", "no")], [], [info("no", T.BOOL, [])])
        body = graph([node("ReduceSum", "list", "sum", keepdims=1), node("Concat", "list sum", "longer", axis=0),
                      node("Add", "c one", "d"), node("Squeeze", "sum", "total"), node("Less", "total limit", "small"),
                      node("If", "small", "more", then_branch=counted, else_branch=stopped)],
                     [info("i", T.INT64, []), info("go", T.BOOL, []), info("list"), info("c", T.INT64, [])],
                     [info("more", T.BOOL, []), info("longer"), info("d", T.INT64, [])], one=np.int64(1), most=np.int64(6),
                     false=np.array(False))
        nodes = [node("Less", "none limit", "start"), helper.make_node("Loop", ["", "start", "x", "zero"], ["all", "count"], body=body),
                 node("ReduceMax", "all", "largest", keepdims=0)]
        whole = graph(nodes, [info("x", dims=["n"]), info("limit", dims=[])],
                      [info("all"), info("count", T.INT64, []), info("largest")], zero=np.int64(0), none=np.float32(0))
        feeds = [{"x": RANDOM.uniform(1, 2, n).astype(np.float32), "limit": np.array(limit, np.float32)}
                 for n, limit in ((3, 50), (1, 1e9), (4, 0.5), (2, -1))]
        self.compare("grows", whole, feeds)

    def test_recurrent_layers_of_any_length(self):
        """LSTM, GRU and RNN, in both directions, over a sequence of as many steps as a run has, with and without lengths."""
        weights = lambda *dims: (RANDOM.standard_normal(dims) / 2).astype(np.float32)
        nodes, constants, outputs = [], {}, []
        for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
            for direction, rows, lengths in (("bidirectional", 2, "lengths"), ("reverse", 1, "lengths"), ("forward", 1, "")):
                name = f"{kind}_{direction}"
                given = {f"w_{name}": weights(rows, gates * 3, 4), f"r_{name}": weights(rows, gates * 3, 3),
                         f"b_{name}": weights(rows, gates * 6)}
                constants |= given
                nodes.append(helper.make_node(kind, ["x", *given, lengths], [f"y_{name}", f"h_{name}"], name=name,
                                              direction=direction, hidden_size=3))
                outputs += [info(f"y_{name}"), info(f"h_{name}")]
        whole = graph(nodes, [info("x", dims=["steps", 2, 4]), info("lengths", T.INT32, [2])], outputs, **constants)
        feeds = [{"x": RANDOM.standard_normal((steps, 2, 4)).astype(np.float32), "lengths": np.array([steps, least], np.int32)}
                 for steps, least in ((1, 1), (2, 1), (5, 3), (9, 9))]
        self.compare("layers", whole, feeds, "x:[1..9]x2x4")
        self.assertEqual(0, self.call("check", "layers.onnx").returncode)
        longer = self.refuse(3, "TN0301", "check", "layers.onnx", "--shape", "x:[1..70000]x2x4")
        self.assertIn("from 1 to 65536", longer.stdout)

    def test_what_only_data_decides_is_a_gap(self):
        body = graph([node("Identity", "a", "b"), node("Identity", "go", "more")],
                     [info("i", T.INT64, []), info("go", T.BOOL, []), info("a")], [info("more", T.BOOL, []), info("b")])
        whole = graph([node("Loop", "m go x", "y", body=body)], [info("x", dims=[2]), info("m", T.INT64, [])], [info("y")],
                      go=np.array(True))
        onnx.save(helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), self.folder / "gap.onnx")
        self.assertIn("its trip count is computed from input data", self.refuse(3, "TN0301", "compile", "gap.onnx").stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
