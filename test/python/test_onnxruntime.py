"""tenon.onnxruntime beside ONNX Runtime itself: each check is done with both modules. Relies on onnx and onnxruntime."""

import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import numpy as np
import onnx
import onnxruntime
import tenon.compare
import tenon.onnxruntime
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(3)


def text_model(path):
    """Token ids and a mask of free batch and length to a mean of embeddings, with what exporters note in a file."""
    table = numpy_helper.from_array(RANDOM.standard_normal((50, 16)).astype(np.float32), "table")
    axes = numpy_helper.from_array(np.array([1], np.int64), "axes")
    last = numpy_helper.from_array(np.array([-1], np.int64), "last")
    nodes = [helper.make_node("Gather", ["table", "ids"], ["tokens"]), helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
             helper.make_node("Unsqueeze", ["m", "last"], ["column"]), helper.make_node("Mul", ["tokens", "column"], ["kept"]),
             helper.make_node("ReduceSum", ["kept", "axes"], ["sum"], keepdims=0), helper.make_node("ReduceSum", ["m", "axes"], ["count"], keepdims=1),
             helper.make_node("Div", ["sum", "count"], ["embedding"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in ("ids", "mask")]
    out = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", 16]),
           helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["batch", "length", 16])]
    model = helper.make_model(helper.make_graph(nodes, "text", ports, out, [table, axes, last]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="test", producer_version="2",
                              domain="org.example", model_version=3, doc_string="means")
    helper.set_model_props(model, {"names": "{0: 'cat'}", "stride": "32"})
    onnx.save(model, path)


def model_of(nodes, inputs, outputs, weights=()):
    """The bytes of a model; an input is (name, dims), floats all."""
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in outputs], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def chosen_by_size(condition, size, then, otherwise):
    """x [b, n] by one of two nodes: `then` where `condition` holds for n and the size."""
    def branch(node):
        return helper.make_graph([node], node.op_type, [], [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)])

    nodes = [helper.make_node("Shape", ["x"], ["n"], start=1, end=2), helper.make_node(condition, ["n", "size"], ["holds"]),
             helper.make_node("If", ["holds"], ["y"], then_branch=branch(then), else_branch=branch(otherwise))]
    weights = [numpy_helper.from_array(np.array([number], np.int64), name) for name, number in (("size", size), ("one", 1))]
    return model_of(nodes, [("x", ["b", "n"])], [("y", None)], weights)


class Both(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = str(pathlib.Path(cls.folder.name) / "text.onnx")
        text_model(cls.path)
        cls.sessions = [module.InferenceSession(cls.path, providers=["CPUExecutionProvider"]) for module in (onnxruntime, tenon.onnxruntime)]

    def feed(self, batch=3, length=7):
        return {"ids": RANDOM.integers(0, 50, (batch, length)), "mask": np.ones((batch, length), np.int64)}

    def assertSame(self, call, sessions=None):
        theirs, ours = (call(session) for session in sessions or self.sessions)
        self.assertEqual(len(theirs), len(ours))
        for want, got in zip(theirs, ours):
            self.assertEqual((want.shape, want.dtype), (got.shape, got.dtype))
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)

    def test_ports_and_metadata(self):
        def ports(session):
            return [(port.name, port.type, port.shape) for port in [*session.get_inputs(), *session.get_outputs()]]

        theirs, ours = self.sessions
        self.assertEqual(ports(theirs), ports(ours))
        for name in ("custom_metadata_map", "producer_name", "graph_name", "domain", "description", "graph_description", "version"):
            self.assertEqual(getattr(theirs.get_modelmeta(), name), getattr(ours.get_modelmeta(), name), name)
        self.assertEqual(theirs.get_providers(), ours.get_providers())
        # Dims without a name.
        model = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", [None, "n", -1, 4])], [("y", [None, "n", -1, 4])])
        theirs, ours = (module.InferenceSession(model) for module in (onnxruntime, tenon.onnxruntime))
        self.assertEqual(ports(theirs), ports(ours))

    def test_all_and_some_outputs(self):
        for batch, length in ((1, 1), (3, 7), (8, 128)):
            feed = self.feed(batch, length)
            for names in (None, ["tokens"], ["tokens", "embedding"]):
                self.assertSame(lambda session: session.run(names, feed))

    def test_what_is_wrong(self):
        feed = self.feed()
        for names, wrong in ((None, {"ids": feed["ids"]}), (None, {**feed, "more": feed["ids"]}), (["nothing"], feed),
                             (None, {**feed, "mask": feed["mask"].astype(np.float32)})):
            with self.assertRaises(Exception):
                self.sessions[0].run(names, wrong)
            with self.assertRaises(ValueError):
                self.sessions[1].run(names, wrong)

    def test_bindings(self):
        feed, place = self.feed(), np.empty((3, 16), np.float32)

        def bound(session):
            binding = session.io_binding()
            ids = feed["ids"]
            binding.bind_input("ids", "cpu", 0, np.int64, ids.shape, ids.ctypes.data)
            binding.bind_cpu_input("mask", feed["mask"])
            binding.bind_output("tokens")
            binding.bind_output("embedding", "cpu", 0, np.float32, place.shape, place.ctypes.data)
            session.run_with_iobinding(binding)
            return [*binding.copy_outputs_to_cpu(), place.copy(), binding.get_outputs()[0].numpy()]

        self.assertSame(bound)

    def test_values(self):
        feed = self.feed()

        def run(session):
            module = onnxruntime if session is self.sessions[0] else tenon.onnxruntime
            values = {name: module.OrtValue.ortvalue_from_numpy(array) for name, array in feed.items()}
            outputs = session.run_with_ort_values(["embedding"], values)
            self.assertEqual(("tensor(float)", [3, 16], "cpu"), (outputs[0].data_type(), outputs[0].shape(), outputs[0].device_name()))
            return [output.numpy() for output in outputs]

        self.assertSame(run)

    def test_bytes_options_and_fixed_dims(self):
        feed, sessions = self.feed(), []
        for module in (onnxruntime, tenon.onnxruntime):
            options = module.SessionOptions()
            options.intra_op_num_threads = 1
            options.graph_optimization_level = module.GraphOptimizationLevel.ORT_ENABLE_ALL
            options.add_free_dimension_override_by_name("length", 7)
            model = pathlib.Path(self.path).read_bytes()
            sessions.append(module.InferenceSession(model, sess_options=options, providers=[("CPUExecutionProvider", {})]))
            self.assertEqual(["batch", 7], sessions[-1].get_inputs()[0].shape)
        self.assertSame(lambda session: session.run(None, feed), sessions)

    def test_sizes(self):
        """A branch that most sizes rule out; more elements than the compiler assumes of a free dim; a model for fixed sizes only."""
        def runs(model, shapes):
            sessions = [module.InferenceSession(model, providers=["CPUExecutionProvider"]) for module in (onnxruntime, tenon.onnxruntime)]
            for shape in shapes:
                self.assertSame(lambda session: session.run(None, {"x": np.ones(shape, np.float32)}), sessions)
            return sessions[1]

        same = helper.make_node("Identity", ["x"], ["same"])
        session = runs(chosen_by_size("Equal", 1, helper.make_node("Squeeze", ["x", "one"], ["squeezed"]), same), [(2, 3), (2, 1), (3, 1), (2, 3)])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(session)).run(None, {"x": np.ones((2, 1), np.float32)})[0], [1, 1])
        runs(model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", ["n", 2])], [("y", ["n", 2])]), [(5, 2), (70000, 2), (200000, 2), (3, 2)])
        with self.assertWarnsRegex(RuntimeWarning, "each set of sizes.*TN0301"):
            session = runs(chosen_by_size("Less", 3, helper.make_node("Unsqueeze", ["x", "one"], ["longer"]), same), [(2, 3), (2, 1), (2, 3)])
        self.assertEqual([("x", "tensor(float)", ["b", "n"])], session.get_inputs())
        self.assertRaises(ValueError, session.run, None, {"z": np.ones((2, 3), np.float32)})

    def test_every_size(self):
        """Free dims of 0, on both sides of a slice's bound, and of 1 beside others: what one engine does not take another does, which is said once."""
        def runs(model, shapes):
            theirs, ours = (module.InferenceSession(model, providers=["CPUExecutionProvider"]) for module in (onnxruntime, tenon.onnxruntime))
            for sizes in shapes:
                feed = {name: RANDOM.standard_normal(shape).astype(np.float32) for name, shape in sizes.items()}
                self.assertSame(lambda session: session.run(None, feed), (theirs, ours))

        def node(operator, inputs, **attributes):
            return helper.make_node(operator, inputs, ["y"], **attributes)

        weight = numpy_helper.from_array(RANDOM.standard_normal((4, 4)).astype(np.float32), "w")
        runs(model_of([helper.make_node("Concat", ["past", "x"], ["all"], axis=1), node("MatMul", ["all", "w"])],
                      [("x", ["b", "s", 4]), ("past", ["b", "p", 4])], [("y", None)], [weight]),
             [{"x": (1, 2, 4), "past": (1, past, 4)} for past in (0, 3, 0, 7)] + [{"x": (0, 2, 4), "past": (0, 1, 4)}])
        bounds = [numpy_helper.from_array(np.array([value]), name) for name, value in (("start", 0), ("end", 12), ("axis", 1))]
        runs(model_of([node("Slice", ["x", "start", "end", "axis"])], [("x", [1, "n"])], [("y", None)], bounds), [{"x": (1, n)} for n in (0, 5, 12, 40)])
        sums = model_of([node("Add", ["a", "b"])], [("a", ["n", 3]), ("b", ["m", 3])], [("y", None)])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            runs(sums, [{"a": (a, 3), "b": (b, 3)} for a, b in ((4, 4), (4, 1), (1, 4), (1, 1), (5, 1))])
        self.assertEqual(1, sum("engines of their own" in str(warning.message) for warning in said))
        wrong = {"a": np.ones((4, 3), np.float32), "b": np.ones((3, 3), np.float32)}
        with self.assertRaisesRegex(ValueError, "TN0612"):
            tenon.onnxruntime.InferenceSession(sums).run(None, wrong)

    def test_no_rank(self):
        with self.assertRaisesRegex(tenon.UnsupportedError, "(?s)TN0301.*'x'"):
            tenon.onnxruntime.InferenceSession(model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", None)], [("y", None)]))

    def test_initializers_that_are_inputs(self):
        weights = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in (("w", [2, 3]), ("s", 5), ("fixed", [1, 1]))]
        nodes = [helper.make_node("Mul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "s"], ["b"]), helper.make_node("Sub", ["b", "fixed"], ["y"])]
        model = model_of(nodes, [("x", ["n", 2]), ("w", [2]), ("s", [])], [("y", ["n", 2])], weights)
        sessions = [module.InferenceSession(model, providers=["CPUExecutionProvider"]) for module in (onnxruntime, tenon.onnxruntime)]
        ports = [[(port.name, port.type, port.shape) for port in session.get_overridable_initializers()] for session in sessions]
        self.assertEqual(*map(sorted, ports))
        self.assertEqual(["x"], [port.name for port in sessions[1].get_inputs()])
        given = {"x": np.ones((3, 2), np.float32), "w": np.array([9, 8], np.float32), "s": np.array(7, np.float32)}
        for names in (["x"], ["x", "w"], ["x", "s"], ["x", "w", "s"], ["x", "w"]):
            self.assertSame(lambda session: session.run(None, {name: given[name] for name in names}), sessions)
        for session in sessions:
            self.assertRaises(Exception, session.run, None, {"x": given["x"], "fixed": given["w"]})

    def test_what_no_size_helps(self):
        """An operator that Tenon lacks is an error when the session is made, also with free dims."""
        node = helper.make_node("Nothing", ["x"], ["y"], domain="org.example")
        graph = helper.make_graph([node], "g", *([helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])] for name in "xy"))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("org.example", 1)], ir_version=8)
        with self.assertRaisesRegex(tenon.UnsupportedError, "Nothing"):
            tenon.onnxruntime.InferenceSession(model.SerializeToString())

    def test_names_inside_of_the_package(self):
        """Programs import types and errors from modules inside of ONNX Runtime."""
        code = ("import sys, tenon.onnxruntime; sys.modules['onnxruntime'] = tenon.onnxruntime\n"
                "import onnxruntime\nfrom onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, SessionOptions\n"
                "from onnxruntime.capi import _pybind_state\nfrom onnxruntime.capi.onnxruntime_inference_collection import InferenceSession\n"
                "assert SessionOptions is tenon.onnxruntime.SessionOptions and InferenceSession is onnxruntime.InferenceSession\n"
                "assert onnxruntime.capi.onnxruntime_pybind11_state.Fail is Fail is tenon.Error")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_options(self):
        theirs, ours = onnxruntime.SessionOptions(), tenon.onnxruntime.SessionOptions()
        for name in [name for name in dir(theirs) if not name.startswith("_") and not callable(getattr(theirs, name))]:
            want, got = getattr(theirs, name), getattr(ours, name)
            self.assertEqual(getattr(want, "name", want), getattr(got, "name", got), name)
        for options in (theirs, ours):
            self.assertRaises(RuntimeError, options.get_session_config_entry, "session.nothing")
            options.add_session_config_entry("session.nothing", "1")
            self.assertEqual("1", options.get_session_config_entry("session.nothing"))

    def test_async(self):
        feed, done, told = self.feed(), threading.Event(), []

        def callback(outputs, user_data, error):
            told.extend([outputs, user_data, error])
            done.set()

        self.sessions[1].run_async(["embedding"], feed, callback, "mine")
        self.assertTrue(done.wait(60))
        np.testing.assert_array_equal(told[0][0], self.sessions[1].run(["embedding"], feed)[0])
        self.assertEqual(["mine", ""], told[1:])

    def test_threads_and_processes(self):
        session, failures = self.sessions[1], []

        def work(seed):
            random = np.random.default_rng(seed)
            for _ in range(100):
                ids = random.integers(0, 50, (int(random.integers(1, 5)), 3))
                if not np.array_equal(session.run(["tokens"], {"ids": ids, "mask": np.ones_like(ids)})[0], self.table[ids]):
                    failures.append(seed)

        self.table = session.run(["tokens"], {"ids": np.arange(50)[None], "mask": np.ones((1, 50), np.int64)})[0][0]
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)
        feed = self.feed()
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(session)).run(None, feed)[0], session.run(None, feed)[0])

    def test_what_there_is(self):
        self.assertIn("CPUExecutionProvider", tenon.onnxruntime.get_available_providers())
        self.assertIn(tenon.onnxruntime.get_device(), ("CPU", "GPU"))


class Compared(unittest.TestCase):
    def test_a_model_for_fixed_sizes_only(self):
        """`bench --against` compiles for the sizes of the inputs where Tenon has no engine for all."""
        model = chosen_by_size("Less", 3, helper.make_node("Unsqueeze", ["x", "one"], ["longer"]), helper.make_node("Relu", ["x"], ["same"]))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            path.write_bytes(model)
            result = tenon.compare.run(str(path), ["onnxruntime"], threads=1, seconds=0, shapes=["x:2x5"])
        self.assertEqual([], result.failures())
        self.assertEqual({"tenon": "ran", "onnxruntime": "ran"}, {row["name"]: row["state"] for row in result.rows})
        self.assertEqual(0, result.rows[0]["error"])


if __name__ == "__main__":
    unittest.main()
