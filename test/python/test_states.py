"""Scatters into a state of the session, which are written over it: ranks, dims of one, odd widths, reductions, over several runs, beside NumPy. Runs with a Python that has onnx: see in_wheel.py."""

import pathlib
import pickle
import tempfile
import unittest

import numpy as np
import onnx
import tenon
from onnx import TensorProto, helper

RUNS = 3
# How a place takes an update, by the name of ONNX.
COMBINE = {"none": lambda old, new: new, "add": lambda old, new: old + new, "max": np.maximum}
# Dims, and how many of them an index names.
SLICES = [([7], 1), ([7, 1], 1), ([64, 5], 1), ([16, 300], 1), ([6, 4, 3], 2), ([3, 5000], 1), ([4, 4], 2)]
# Dims, the axis, and updates along it.
ELEMENTS = [([7], 0, 3), ([5, 9], 1, 3), ([9, 5], 0, 3), ([40, 70], 0, 2), ([1, 6], 1, 2), ([3, 4, 5], 1, 2)]


class States(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(1)
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.path = pathlib.Path(holder.name) / "m.onnx"

    def check(self, op, dims, updates, indices, scatter, **attributes):
        """The engine's state, read negated, is what NumPy has after each run."""
        value = lambda name, dims, kind=TensorProto.FLOAT: helper.make_tensor_value_info(name, kind, dims)
        nodes = [helper.make_node(op, ["x", "i", "u"], ["y"], **attributes), helper.make_node("Neg", ["y"], ["z"])]
        graph = helper.make_graph(nodes, "g", [value("x", dims), value("i", list(indices().shape), TensorProto.INT64), value("u", updates)], [value("y", dims), value("z", dims)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), self.path)
        session = tenon.compile(self.path, states={"x": "y"}).session()
        state = np.zeros(dims, np.float32)
        for run in range(RUNS):
            i, u = indices(), self.random.standard_normal(updates).astype(np.float32)
            state = scatter(state.copy(), i, u)
            with self.subTest(op=op, dims=dims, run=run, **attributes):
                np.testing.assert_allclose(np.asarray(session(i, u)), -state, rtol=1e-6, atol=1e-6)

    def test_slices(self):
        for reduction, combine in COMBINE.items():
            for dims, named in SLICES:
                def indices():
                    flat = self.random.choice(np.prod(dims[:named]), 3, replace=False)
                    return np.stack(np.unravel_index(flat, dims[:named]), -1).astype(np.int64)

                def scatter(state, i, u):
                    for place, update in zip(map(tuple, i), u):
                        state[place] = combine(state[place], update)
                    return state

                self.check("ScatterND", dims, [3, *dims[named:]], indices, scatter, reduction=reduction)

    def test_elements(self):
        for reduction, combine in COMBINE.items():
            for dims, axis, count in ELEMENTS:
                updates = [*dims[:axis], count, *dims[axis + 1 :]]

                def scatter(state, i, u):
                    for at in np.ndindex(*updates):
                        place = (*at[:axis], i[at], *at[axis + 1 :])
                        state[place] = combine(state[place], u[at])
                    return state

                self.check("ScatterElements", dims, updates, lambda: self.random.random(dims).argsort(axis).take(range(count), axis).astype(np.int64), scatter, axis=axis, reduction=reduction)


class SizesBySession(unittest.TestCase):
    """A cache [cap, 4] whose rows each session decides."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        value = lambda name, dims, kind=TensorProto.FLOAT: helper.make_tensor_value_info(name, kind, dims)
        nodes = [helper.make_node("ScatterND", ["x", "i", "u"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
        graph = helper.make_graph(nodes, "g", [value("x", ["cap", 4]), value("i", [1, 1], TensorProto.INT64), value("u", [1, 4])], [value("y", ["cap", 4]), value("z", ["cap", 4])])
        path = pathlib.Path(holder.name) / "m.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
        cls.path = pathlib.Path(holder.name) / "m.tenon"
        cls.engine = tenon.compile(path, states={"x": "y"}, dynamic_shapes={"x": "[2..1000]x4"})
        cls.engine.save(cls.path)

    def store(self, session, row, number):
        return session(np.array([[row]]), np.full((1, 4), number, np.float32))

    def test_sessions_side_by_side(self):
        caps = (2, 8, 1000)
        sessions = [self.engine.session(values={"cap": cap}) for cap in caps]
        for number in (1, 2, 3):
            for cap, session in zip(caps, sessions):
                z = self.store(session, cap - 1, number)
                self.assertEqual(z.shape, (cap, 4))
                np.testing.assert_array_equal(z[-1], np.full(4, -number))
                self.assertFalse(z[:-1].any())
                self.assertEqual(session.memory()["state"], -(-cap * 16 // 64) * 64)

    def test_without_a_value(self):
        self.assertEqual(self.store(self.engine, 0, 1).shape, (1000, 4))

    def test_values_of_the_engine(self):
        engine = tenon.load(self.path, values={"cap": 8})
        self.assertEqual(self.store(engine, 0, 1).shape, (8, 4))
        self.assertEqual(self.store(engine.session(), 0, 1).shape, (8, 4))
        self.assertEqual(self.store(engine.session(values={"cap": 3}), 0, 1).shape, (3, 4))
        self.assertEqual(self.store(pickle.loads(pickle.dumps(engine.session(values={"cap": np.int64(4)}))), 0, 1).shape, (4, 4))
        self.assertEqual(self.store(pickle.loads(pickle.dumps(engine)), 0, 1).shape, (8, 4))

    def test_bad_values(self):
        for values in ({"cap": 1}, {"cap": 1001}, {"rows": 8}, {"cap": 8, "": 8}, {"cap": 8.0}, {8: 8}):
            with self.assertRaises(tenon.Error) as caught:
                self.engine.session(values=values)
            self.assertEqual(caught.exception.id, "TN0105")
        with self.assertRaises(tenon.Error) as caught:
            self.store(self.engine.session(values={"cap": 8}), 8, 1)
        self.assertEqual(caught.exception.id, "TN0608")


if __name__ == "__main__":
    unittest.main()
