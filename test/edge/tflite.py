"""TensorFlow Lite models, written by this test: operators beside numpy on CPUs and as C, variables from run to run, and what is refused."""

import ctypes
import json
import os
import pathlib
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "test/e2e"))
import board
import tflite_ops as ops
import tflite_writer as w
from tool import ToolTest

SHAPE = (1, 6, 5, 4)
SCALES = {"x": (0.02537, 3), "v": (0.03089, -128)}


def quantized(real, scale, zero):
    return np.clip(np.rint(real / np.float64(np.float32(scale))) + zero, -128, 127).astype(np.int8)


def real_of(numbers, scale, zero):
    return (numbers.astype(np.float64) - zero) * np.float64(np.float32(scale))


def operands(m, case, tensors):
    """The tensors of a case's operands."""
    return [tensors[o] if isinstance(o, str) else m.constant(f"c{len(m.tensors)}", o) for o in case[1]]


class Models(ToolTest):
    def save(self, name, model):
        path = self.folder / f"{name}.tflite"
        path.write_bytes(model.bytes() if isinstance(model, w.Lite) else model)
        return path.name

    def run_on_cpu(self, name, **inputs):
        for key, value in inputs.items():
            np.save(self.folder / f"{key}.npy", value)
        self.succeed("run", name, "--target", "cpu:native", *(f"--inputs={key}={key}.npy" for key in inputs), "-o", "out.npz")
        return dict(np.load(self.folder / "out.npz"))


class Operators(Models):
    def test_floats(self):
        random = np.random.default_rng(1)
        data = {"x": random.normal(size=SHAPE).astype(np.float32) * 2, "v": random.uniform(0.1, 3, SHAPE).astype(np.float32)}
        m = w.Lite()
        tensors = {key: m.tensor(key, SHAPE, np.float32) for key in data}
        wanted, outputs = {}, []
        for i, case in enumerate([case[:4] for case in ops.QUANTIZED if case[0] != "QUANTIZE"] + ops.REAL):
            results = case[3](*(data[o].astype(np.float64) for o in case[1] if isinstance(o, str)))
            made = []
            for k, y in enumerate(results if isinstance(results, list) else [results]):
                y = np.asarray(y, np.float32) if np.asarray(y).dtype == np.float64 else np.asarray(y, np.int32) if np.asarray(y).dtype.kind == "i" else np.asarray(y)
                made.append(m.tensor(f"{case[0]}_{i}_{k}", y.shape, y.dtype))
                wanted[f"{case[0]}_{i}_{k}"] = y
            m.op(case[0], operands(m, case, tensors), made, case[2])
            outputs += made
        random_weights = {name: random.normal(size=shape).astype(np.float32) for name, shape in (("full", (6, 3, 3, 4)), ("depth", (1, 3, 2, 8)), ("dense", (7, 20)), ("back", (3, 3, 2, 4)))}
        for name, op, options, y in [
            ("full", "CONV_2D", w.conv(w.SAME, (2, 1), 1), lambda v: np.maximum(ops.conv(data["x"], v, 0.5, w.SAME, (2, 1)), 0)),
            ("depth", "DEPTHWISE_CONV_2D", w.depthwise(w.VALID, (1, 2), 0, (2, 1), 2), lambda v: ops.depthwise(data["x"], v, 0.5, w.VALID, (1, 2), (2, 1))),
            ("dense", "FULLY_CONNECTED", w.dense(3), lambda v: np.clip(data["x"].reshape(-1, 20) @ v.T + 0.5, 0, 6)),
            ("back", "TRANSPOSE_CONV", (49, [(0, "i8", w.SAME), (1, "i32", 1), (2, "i32", 2)]), lambda v: ops.transpose_conv(data["x"], v, w.SAME, (2, 1), (12, 5))),
        ]:
            weight = random_weights[name]
            wanted[name] = y(weight.astype(np.float64))
            made = m.tensor(name, wanted[name].shape, np.float32)
            constants = [m.constant(f"{name}_w", weight), m.constant(f"{name}_b", np.full(wanted[name].shape[-1], 0.5, np.float32))]
            m.op(op, [m.constant("size", np.int32(wanted[name].shape)), constants[0], tensors["x"]] if name == "back" else [tensors["x"], *constants], [made], options)
            outputs.append(made)
        m.end(tensors.values(), outputs)
        found = self.run_on_cpu(self.save("floats", m), **data)
        self.assertEqual(set(wanted), set(found))
        for name, y in wanted.items():
            self.assertEqual(y.shape, found[name].shape, name)
            np.testing.assert_allclose(found[name], y, rtol=2e-5, atol=2e-5, err_msg=name)

    @staticmethod
    def quantized_model(has_lite_scales=False):
        """One result: those of all operators, brought to one scale, one after the other; and its numbers for these inputs. `has_lite_scales`: some results have
        the scale of the operand, as TensorFlow Lite Micro wants it."""
        random = np.random.default_rng(2)
        data = random.integers(-128, 128, (2, *SHAPE[1:])).astype(np.int8)
        m = w.Lite()
        both, parts = m.tensor("both", data.shape, np.int8, *SCALES["x"]), [m.tensor(f"half{i}", SHAPE, np.int8, *SCALES["x"]) for i in range(2)]
        tensors = {"x": parts[0], "v": m.tensor("v", SHAPE, np.int8, *SCALES["v"])}
        m.op("SPLIT", [m.constant("axis", np.int32(0)), both], parts, (35, [(0, "i32", 2)]))
        m.op("QUANTIZE", [parts[1]], [tensors["v"]])
        real = {"x": real_of(data[:1], *SCALES["x"]), "v": real_of(quantized(real_of(data[1:], *SCALES["x"]), *SCALES["v"]), *SCALES["v"])}
        joined, wanted, common = [], [], (0.03719, -7)

        def join(tensor, numbers, scale, zero):
            flat, same = (m.tensor(f"part{len(m.tensors)}_{i}", (1, numbers.size), np.int8, *s) for i, s in enumerate(((scale, zero), common)))
            m.op("RESHAPE", [tensor, m.constant(f"shape{flat}", np.int32([1, numbers.size]))], [flat])
            m.op("QUANTIZE", [flat], [same])
            joined.append(same)
            wanted.append(quantized(real_of(numbers.ravel(), scale, zero), *common))

        for i, case in enumerate(ops.QUANTIZED):
            if has_lite_scales and case[0] in ("AVERAGE_POOL_2D", "RELU6"):
                case = (*case[:4], ops.MOVES)
            if has_lite_scales and case[0] in ("CONCATENATION", "PACK"):
                case = (case[0], ("x", "x"), *case[2:4], ops.MOVES)
            results = case[3](*(real[o] for o in case[1] if isinstance(o, str)))
            scale, zero = case[4] or SCALES["x"]
            made = []
            for k, y in enumerate(results if isinstance(results, list) else [results]):
                made.append((m.tensor(f"{case[0]}_{i}_{k}", y.shape, np.int8, scale, zero), quantized(y, scale, zero)))
            m.op(case[0], operands(m, case, tensors), [tensor for tensor, _ in made], case[2] if case[2] and case[2][0] else None)
            for tensor, numbers in made:
                join(tensor, numbers, scale, zero)
        x_scale = np.float64(np.float32(SCALES["x"][0]))
        for op, shape, axis, options, y, scale in [
            ("CONV_2D", (6, 3, 3, 4), 0, w.conv(w.SAME, (2, 1), 1), lambda v, b: np.maximum(ops.conv(real["x"], v, b, w.SAME, (2, 1)), 0), 0.1031),
            ("DEPTHWISE_CONV_2D", (1, 3, 2, 4), 3, w.depthwise(w.SAME, (1, 2)), lambda v, b: ops.depthwise(real["x"], v, b, w.SAME, (1, 2)), 0.0613),
            ("FULLY_CONNECTED", (7, 20), None, w.dense(), lambda v, b: real["x"].reshape(-1, 20) @ v.T + b, 0.2057),
        ]:
            outputs = shape[axis or 0]
            scales = random.uniform(0.004, 0.02, 1 if axis is None else outputs).astype(np.float32)
            weight, bias = random.integers(-127, 128, shape).astype(np.int8), random.integers(-3000, 3000, outputs).astype(np.int32)
            along = [-1 if d == axis else 1 for d in range(len(shape))]
            result = y(weight * scales.astype(np.float64).reshape(along), bias * x_scale * scales)
            constants = [m.constant(f"{op}_w", weight, scales, np.zeros(len(scales), np.int64), axis or 0), m.constant(f"{op}_b", bias, (np.float32(SCALES["x"][0]) * scales), np.zeros(len(scales), np.int64))]
            made = m.tensor(op, result.shape, np.int8, scale, 9)
            m.op(op, [tensors["x"], *constants], [made], options)
            join(made, quantized(result, scale, 9), scale, 9)
        while len(joined) > 1:  # TensorFlow Lite Micro joins ten at most
            ten, joined = joined[:10], joined[10:]
            joined.append(m.tensor(f"joined{len(joined)}", (1, sum(m.tensors[t]["shape"][1] for t in ten)), np.int8, *common))
            m.op("CONCATENATION", ten, joined[-1:], (10, [(0, "i32", 1), (1, "i8", 0)]))
            wanted = wanted[len(ten) :] + [np.concatenate(wanted[: len(ten)])]
        m.end([both], joined)
        return m, data, wanted[0]

    def test_numbers(self):
        m, data, wanted = self.quantized_model()
        name = self.save("numbers", m)
        np.testing.assert_array_equal(next(iter(self.run_on_cpu(name, both=data).values())).ravel(), wanted)
        self.succeed("compile", name, "--target", "c", "-o", "numbers")
        code, [found], said = board.run_checked(self.folder / "numbers", "numbers", [data])
        self.assertEqual(0, code, said)
        np.testing.assert_array_equal(found, wanted)


    def test_bytes_of_tensorflow_lite_micro(self):
        """Those that expect_tflite.py wrote."""
        m, data, wanted = self.quantized_model(has_lite_scales=True)
        self.succeed("compile", self.save("lite", m), "--target", "c", "--rounding", "tflite", "-o", "lite")
        code, [found], said = board.run_checked(self.folder / "lite", "lite", [data])
        self.assertEqual(0, code, said)
        expected = np.load(pathlib.Path(__file__).parent / "tflite_bytes.npy")
        np.testing.assert_array_equal(found, expected)
        self.assertGreater(np.count_nonzero(expected != wanted), 50)  # one rounding gives others


class Input(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dims", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_size_t)]


class Output(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class Variables(Models):
    def session(self, engine, inputs, bytes_out):
        """What one session makes of one input after the other."""
        api, opened, session = ctypes.CDLL(os.environ["TENON_BUILD_DIR"] + "/lib/libtenon_runtime.so"), ctypes.c_void_p(), ctypes.c_void_p()
        self.assertIsNone(ctypes.cast(api.tenon_engine_open(str(self.folder / engine).encode(), None, ctypes.byref(opened)), ctypes.c_void_p).value)
        api.tenon_session_create(opened, None, ctypes.byref(session))
        for row in inputs:
            out = np.zeros(bytes_out, np.int8)
            given = Input(row.ctypes.data, (ctypes.c_int64 * row.ndim)(*row.shape), row.ndim)
            api.tenon_session_run(session, ctypes.byref(given), ctypes.c_size_t(1), ctypes.byref(Output(out.ctypes.data, out.nbytes)), ctypes.c_size_t(1))
            yield out
        api.tenon_session_destroy(session)
        api.tenon_engine_destroy(opened)

    def stream(self, initial):
        """A window of three frames of two numbers, into which each run shifts one: the state of two frames, and their products."""
        m = w.Lite()
        x, y = m.tensor("x", (1, 1, 2), np.int8, 0.5, 1), m.tensor("y", (1, 3, 2), np.int8, 0.5, 1)
        handle, old, new = m.tensor("handle", (), w.RESOURCE), m.tensor("old", (1, 2, 2), np.int8, 0.5, 1), m.tensor("new", (1, 2, 2), np.int8, 0.5, 1)
        m.op("CALL_ONCE", [], [], (103, [(0, "i32", 1)]))
        m.op("VAR_HANDLE", [], [handle], (111, [(0, "text", ""), (1, "text", "frames")]))
        m.op("READ_VARIABLE", [handle], [old])
        m.op("CONCATENATION", [old, x], [y], (10, [(0, "i32", 1), (1, "i8", 0)]))
        m.op("STRIDED_SLICE", [y, *(m.constant(f"c{i}", np.int32(v)) for i, v in enumerate(([0, 1, 0], [1, 3, 2], [1, 1, 1])))], [new], (32, [(0, "i32", 0)]))
        m.op("ASSIGN_VARIABLE", [handle, new], [])
        m.end([x], [y])
        m.begin()
        handle = m.tensor("handle", (), w.RESOURCE)
        m.op("VAR_HANDLE", [], [handle], (111, [(0, "text", ""), (1, "text", "frames")]))
        m.op("ASSIGN_VARIABLE", [handle, m.constant("begin", np.full((1, 2, 2), initial, np.int8), 0.5, 1)], [])
        m.end([], [])
        return m

    def check_stream_on_board(self, name, frames, wanted):
        """The same by the folder of C: its arena keeps the frames."""
        self.succeed("compile", name, "--target", "c", "-o", "stream")
        code, outputs, said = board.run_checked(self.folder / "stream", "stream", list(frames))
        self.assertEqual(0, code, said)
        np.testing.assert_array_equal(wanted, outputs)

    def test_state_from_run_to_run(self):
        for initial in (0, 7):
            name = self.save("stream", self.stream(initial))
            self.succeed("compile", name, "--target", "cpu:native", "-o", "stream.tenon")
            frames = np.random.default_rng(3).integers(-128, 128, (4, 1, 1, 2)).astype(np.int8)
            window, windows = np.full((1, 2, 2), initial, np.int8), []
            for frame, found in zip(frames, self.session("stream.tenon", frames, 6), strict=True):
                wanted = np.concatenate([window, frame], 1)
                np.testing.assert_array_equal(wanted, found.reshape(wanted.shape), str(initial))
                windows.append(wanted.ravel())
                window = wanted[:, 1:]
            self.check_stream_on_board(name, frames, windows)


class Refusals(Models):
    def relu(self, change=None):
        m = w.Lite()
        x, y = m.tensor("x", (1, 4), np.float32), m.tensor("y", (1, 4), np.float32)
        m.op("RELU", [x], [y])
        if change:
            change(m)
        m.end([x], [y])
        return m

    def test_all_gaps_at_once(self):
        """Custom and unknown operators, one that Tenon lacks, a type that it lacks: each with its node, and nothing is written."""
        m = w.Lite()
        x = m.tensor("x", (1, 4, 4, 2), np.float32)
        names = []
        for op, custom in (("CUSTOM", "TFLite_Detection_PostProcess"), ("UNIDIRECTIONAL_SEQUENCE_LSTM", None), (250, None), ("GATHER", None), ("STRIDED_SLICE", None)):
            names.append(f"of_{custom or op}")
            y = m.tensor(names[-1], (1, 4, 4, 2), np.float32)
            options = {"GATHER": (23, [(0, "i32", 1), (1, "i32", 1)]), "STRIDED_SLICE": (32, [(2, "i32", 1)])}.get(op)
            m.op(op, [x, *(m.constant(f"c{len(m.tensors)}", np.int32([0, 0, 0, 0])) for _ in range(3))], [y], options, custom)
        m.end([x], [y])
        name = self.save("gaps", m)
        done = self.refuse(3, "TN0301", "check", name, "--json")
        report, _ = json.JSONDecoder().raw_decode(done.stdout)
        self.assertEqual(names, [gap["node"] for gap in report["gaps"]])
        self.assertIn("TFLite_Detection_PostProcess", done.stdout)
        for target in ("cpu", "c"):
            done = self.refuse(3, "TN0301", "compile", name, "--target", target)
            for node in names:
                self.assertIn(node, done.stderr)
        self.assertFalse((self.folder / "gaps").exists() or (self.folder / "gaps.tenon").exists())

    def test_damaged_files(self):
        def tensor(number, **fields):
            return lambda m: m.tensors[number].update(fields)

        def op(inputs, outputs, kind="RELU", options=None):
            return lambda m: m.op(kind, inputs, outputs, options)

        whole = self.relu().bytes()
        self.succeed("check", self.save("whole", whole))
        far = bytearray(whole)
        far[:4] = (len(whole) - 2).to_bytes(4, "little")
        for name, model, error in [
            ("cut", whole[:-40], "TN0257"), ("empty_root", whole[:8] + bytes(40), "TN0257"), ("far", bytes(far), "TN0257"), ("old", self.relu().bytes(version=1), "TN0257"),
            ("negative", self.relu(tensor(0, shape=[1, -4])), "TN0222"), ("huge", self.relu(tensor(0, shape=[2**30, 2**30, 2**30])), "TN0223"), ("buffer", self.relu(tensor(0, buffer=99)), "TN0257"),
            ("short", self.relu(lambda m: (m.constant("c", np.zeros(4, np.float32)), tensor(2, shape=[5])(m))), "TN0225"), ("ranks", self.relu(tensor(0, shape=[1] * 9)), "TN0224"),
            ("index", self.relu(op([77], [1])), "TN0257"), ("minus", self.relu(op([0], [-2])), "TN0257"), ("twice", self.relu(op([0], [1])), "TN0215"),
            ("cycle", self.relu(lambda m: (m.tensor("a", (1, 4), np.float32), m.tensor("b", (1, 4), np.float32), op([3], [2])(m), op([2], [3])(m))), "TN0217"),
            ("shape", self.relu(tensor(1, shape=[1, 5])), "TN0236"), ("scales", self.relu(tensor(0, type=9, scale=np.float32([1, 2, 3]), zero=np.int64([0, 0, 0]))), "TN0236"),
            ("arity", self.relu(lambda m: (m.tensor("z", (1, 4), np.float32), op([0], [2], "ADD", w.arithmetic("ADD"))(m))), "TN0218"),
            ("options", self.relu(lambda m: (m.tensor("z", (1, 4), np.float32), op([0], [2], "SOFTMAX")(m))), "TN0219"),
        ]:  # fmt: skip
            with self.subTest(name=name):
                path = self.save(name, model)
                self.refuse(5, error, "check", path)


if __name__ == "__main__":
    unittest.main()
