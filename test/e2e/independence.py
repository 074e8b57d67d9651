"""Drawn graphs of ids [batch, length] and a mask: steps that let rows meet, let padded places reach others, or do neither, in any order. What the
record calls independent is held to runs: a row alone, in a batch, and padded. What only harmless steps make must be called so.
"""

import os
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from tool import ToolTest

WIDTH, VOCABULARY, LONGEST = 6, 11, 16
GRAPHS = int(os.environ.get("TENON_DRAWN_GRAPHS", "12"))


class Drawn:
    """A graph that grows by steps from `x` [batch, length, WIDTH]; each step returns the value that it makes."""

    def __init__(self, random):
        self.random, self.nodes, self.weights = random, [], {}
        table = random.standard_normal((VOCABULARY, WIDTH)).astype(np.float32)
        table[0] = 10  # what is padded with, and beyond all others
        self.constant("table", table)
        self.constant("positions", random.standard_normal((LONGEST, WIDTH)).astype(np.float32))
        for name, value in {"zero": [0], "one": [1], "two": [2], "last": [-1], "far": [-1 << 40]}.items():
            self.constant(name, np.array(value, np.int64))
        self.constant("hidden", np.array(-1e9, np.float32))
        self.x = self.node("Gather", "table", "ids")
        self.numbers = self.node("Cast", "mask", to=T.FLOAT)
        self.column = self.node("Unsqueeze", self.numbers, "two")
        self.length = self.node("Shape", "ids", start=1, end=2)

    def constant(self, name, value):
        self.weights[name] = value
        return name

    def weight(self, *dims):
        return self.constant(f"w{len(self.weights)}", self.random.standard_normal(dims).astype(np.float32))

    def node(self, op, *inputs, **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=f"{op}_{len(self.nodes)}", **attributes))
        return output

    def scores(self):
        turned = self.node("Transpose", self.node("MatMul", self.x, self.weight(WIDTH, WIDTH)), perm=[0, 2, 1])
        return self.node("MatMul", self.x, turned)

    def attend(self, scores):
        return self.node("MatMul", self.node("Softmax", scores, axis=-1), self.x)

    def bias(self):
        ones = self.node("Sub", self.constant("unit", np.array(1, np.float32)), self.numbers)
        return self.node("Unsqueeze", self.node("Mul", ones, "hidden"), "one")

    # Steps: neither rows nor places.
    def linear(self):
        return self.node("Tanh", self.node("MatMul", self.x, self.weight(WIDTH, WIDTH)))

    def normalize(self):
        return self.node("LayerNormalization", self.x, self.weight(WIDTH))

    def place(self):
        return self.node("Add", self.x, self.node("Slice", "positions", "zero", self.length, "zero"))

    def masked(self):
        return self.node("Mul", self.x, self.column)

    def folded(self):
        flat = self.node("Reshape", self.x, self.constant("flat", np.array([-1, WIDTH], np.int64)))
        return self.node("Reshape", self.node("MatMul", flat, self.weight(WIDTH, WIDTH)), self.node("Shape", self.x))

    def seen(self):
        return self.attend(self.node("Add", self.scores(), self.bias()))

    def heads(self):
        split = self.node("Reshape", self.x, self.constant("split", np.array([0, 0, 2, WIDTH // 2], np.int64)))
        q = self.node("Transpose", split, perm=[0, 2, 1, 3])
        scores = self.node("MatMul", q, self.node("Transpose", split, perm=[0, 2, 3, 1]))
        weights = self.node("Softmax", self.node("Add", scores, self.node("Unsqueeze", self.bias(), "one")), axis=-1)
        back = self.node("Transpose", self.node("MatMul", weights, q), perm=[0, 2, 1, 3])
        return self.node("Reshape", back, self.constant("joined", np.array([0, 0, WIDTH], np.int64)))

    def causal(self):
        square = self.node("Concat", self.length, self.length, axis=0)
        ones = self.node("ConstantOfShape", square, value=numpy_helper.from_array(np.array([1], np.int64)))
        kept = self.node("Cast", self.node("Trilu", ones, upper=0), to=T.BOOL)
        return self.attend(self.node("Where", kept, self.scores(), "hidden"))

    def causal_seen(self):
        square = self.node("Concat", self.length, self.length, axis=0)
        ones = self.node("ConstantOfShape", square, value=numpy_helper.from_array(np.array([1], np.int64)))
        kept = self.node("Cast", self.node("Trilu", ones, upper=0), to=T.BOOL)
        return self.attend(self.node("Add", self.node("Where", kept, self.scores(), "hidden"), self.bias()))

    def causal_divided(self):
        square = self.node("Concat", self.length, self.length, axis=0)
        ones = self.node("ConstantOfShape", square, value=numpy_helper.from_array(np.array([1], np.int64)))
        kept = self.node("Cast", self.node("Trilu", ones, upper=0), to=T.BOOL)
        shifted = self.node("Sub", self.numbers, self.constant("unit", np.array(1, np.float32)))
        bias = self.node("Unsqueeze", self.node("Div", shifted, self.constant("least", np.array(1e-9, np.float32))), "one")
        return self.attend(self.node("Add", self.node("Where", kept, self.scores(), "hidden"), bias))

    def indexed(self):
        indices = self.node("Range", self.constant("start", np.int64(0)), self.node("Squeeze", self.length), self.constant("step", np.int64(1)))
        earlier = self.node("LessOrEqual", self.node("Unsqueeze", indices, "zero"), self.node("Unsqueeze", indices, "one"))
        return self.attend(self.node("Where", earlier, self.scores(), "hidden"))

    def running(self):
        return self.node("Tanh", self.node("CumSum", self.x, "one"))

    def first(self):
        return self.node("Add", self.x, self.node("Slice", self.x, "zero", "one", "one"))

    def pooled(self):
        sums = self.node("ReduceSum", self.node("Mul", self.x, self.column), "one", keepdims=1)
        return self.node("Add", self.x, self.node("Div", sums, self.node("ReduceSum", self.column, "one", keepdims=1)))

    def best(self):
        return self.node("Add", self.x, self.node("ReduceMax", self.node("Where", self.node("Cast", self.column, to=T.BOOL), self.x, "hidden"), "one", keepdims=1))

    def filtered(self):
        turned = self.node("Transpose", self.masked(), perm=[0, 2, 1])
        return self.node("Transpose", self.node("Conv", turned, self.weight(WIDTH, WIDTH, 3), pads=[1, 1]), perm=[0, 2, 1])

    # Places reach each other.
    def unseen(self):
        return self.attend(self.scores())

    def mean(self):
        return self.node("Sub", self.x, self.node("ReduceMean", self.x, "one", keepdims=1))

    def largest(self):
        return self.node("Sub", self.x, self.node("ReduceMax", self.x, "one", keepdims=1))

    def backwards(self):
        return self.node("Slice", self.x, "last", "far", "one", "last")

    def spread(self):
        return self.node("Softmax", self.x, axis=1)

    def end(self):
        return self.node("Add", self.x, self.node("Slice", self.x, "last", self.constant("most", np.array([1 << 40], np.int64)), "one"))

    def blurred(self):
        turned = self.node("Transpose", self.node("Add", self.x, self.weight(WIDTH)), perm=[0, 2, 1])
        return self.node("Transpose", self.node("Conv", turned, self.weight(WIDTH, WIDTH, 3), pads=[1, 1]), perm=[0, 2, 1])

    # Rows meet.
    def centered(self):
        return self.node("Sub", self.x, self.node("ReduceMean", self.x, "zero", keepdims=1))

    def head(self):
        return self.node("Add", self.x, self.node("Slice", self.x, "zero", "one", "zero"))

    def summed(self):
        return self.node("Tanh", self.node("CumSum", self.x, "zero"))

    def gated(self):
        limit = self.constant("limit", np.array(0.3, np.float32))
        return self.node("Add", self.x, self.node("Relu", self.node("Sub", self.node("ReduceMax", self.x, "zero", keepdims=1), limit)))

    HARMLESS = [linear, normalize, place, masked, folded, seen, heads, causal, causal_seen, causal_divided, indexed, running, first, pooled, best, filtered]
    OF_PLACES = [unseen, mean, largest, backwards, spread, end, blurred]
    OF_ROWS = [centered, head, summed, gated]

    def model(self):
        ids, mask = (helper.make_tensor_value_info(name, T.INT64, ["batch", "length"]) for name in ("ids", "mask"))
        nodes = [*self.nodes, helper.make_node("Identity", [self.x], ["y"])]
        graph = helper.make_graph(nodes, "g", [ids, mask], [helper.make_tensor_value_info("y", T.FLOAT, ["batch", "length", WIDTH])],
                                  [numpy_helper.from_array(np.asarray(value), key) for key, value in self.weights.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


class Independence(ToolTest):
    def runs(self, ids, mask):
        np.savez(self.folder / "in.npz", ids=np.array(ids), mask=np.array(mask))
        self.succeed("run", "drawn.tenon", "--inputs", "in.npz", "-o", "out.npz")
        return np.load(self.folder / "out.npz")["y"]

    def hold(self, drawn, steps):
        onnx.save(drawn.model(), self.folder / "drawn.onnx")
        self.succeed("compile", "drawn.onnx", "-o", "drawn.tenon", "--target", "cpu:avx2", "--shape", f"ids:[1..64]x[2..{LONGEST}]")
        report = self.json("inspect", "drawn.tenon", "--format", "json")
        (rows,), (padding,) = report["rows"], report["padding"]
        random = drawn.random
        lengths = [LONGEST, int(random.integers(2, 10))]
        own = [random.integers(1, VOCABULARY, (1, length)) for length in lengths]
        masks = [np.ones_like(ids) for ids in own]
        if not padding.get("masks", {}):  # then masks may hide any place, and be padded with anything
            masks = [random.integers(0, 2, ids.shape) for ids in own]
        alone = [self.runs(*row) for row in zip(own, masks)]
        batch = np.concatenate([random.integers(1, VOCABULARY, (4, LONGEST)), own[0]])
        together = self.runs(batch, np.concatenate([random.integers(0, 2, (4, LONGEST)), masks[0]]))
        meets = not np.allclose(together[-1:], alone[0], rtol=1e-4, atol=1e-4)
        behind = ((0, 0), (0, LONGEST - lengths[1]))
        padded = self.runs(np.pad(own[1], behind), np.pad(masks[1], behind, constant_values=0 if padding.get("masks", {}) else 1))
        reaches = not np.allclose(padded[:, :lengths[1]], alone[1], rtol=1e-4, atol=1e-4)
        names = [step.__name__ for step in steps]
        with self.subTest(steps=names, rows=rows, padding=padding):
            self.assertFalse(rows["independent"] and meets, "rows that meet are called independent")
            self.assertFalse(padding["independent"] and reaches, "padded places that reach an output are called independent")
            if not set(steps) & set(Drawn.OF_ROWS):
                self.assertTrue(rows["independent"])
            if not set(steps) & set(Drawn.OF_PLACES):
                self.assertTrue(padding["independent"])
                self.assertIn(padding["masks"], [{}, {"mask": 0}])
        return meets, reaches

    def test_each(self):
        """Each step by itself, and that the harmful ones do harm in a run: no detector that never speaks."""
        for steps, harms in [(Drawn.HARMLESS, (False, False)), (Drawn.OF_PLACES, (False, True)), (Drawn.OF_ROWS, (True, False))]:
            for step in steps:
                drawn = Drawn(np.random.default_rng(47))
                drawn.x = step(drawn)
                self.assertEqual(harms, self.hold(drawn, [step]), step.__name__)

    def test_drawn(self):
        random = np.random.default_rng(4711)
        for _ in range(GRAPHS):
            pool = Drawn.HARMLESS * 3 + [*Drawn.OF_PLACES, *Drawn.OF_ROWS] * int(random.integers(0, 2))
            drawn = Drawn(random)
            steps = [pool[i] for i in random.integers(0, len(pool), random.integers(2, 6))]
            for step in steps:
                drawn.x = step(drawn)
            self.hold(drawn, steps)

    def test_check(self):
        """`check` says it before anything is compiled."""
        drawn = Drawn(np.random.default_rng(1))
        drawn.x = drawn.mean()
        onnx.save(drawn.model(), self.folder / "drawn.onnx")
        text = self.succeed("check", "drawn.onnx").stdout
        self.assertIn("rows    y: independent", text)
        self.assertRegex(text, "padding length: reaches y: node 'ReduceMean_[0-9]+' takes the mean over padded places")


if __name__ == "__main__":
    sys.exit(unittest.main())
