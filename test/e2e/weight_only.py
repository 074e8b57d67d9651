"""Products of floats by weights of 4 and 8 bits, against ONNX Runtime's and against the numbers that the weights stand for, on every
CPU level that this machine runs: MatMulNBits and DequantizeLinear in all their forms, depths that no block divides and columns that
fill no panel, few rows, many and as many as a run says; and that the engine holds the bits, not floats.
"""

import itertools
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tool import ToolTest

MICROSOFT = "com.microsoft"
# dims of the rows: the decoding kernels take up to eight
ROWS = ((1,), (5,), (2, 4), (9,), (3, 70))
SIZES = {4: (np.uint8, TensorProto.UINT4, TensorProto.INT4), 8: (np.uint8, TensorProto.UINT8, TensorProto.INT8)}


def packed(values, bits):
    """Along the last axis, the lowest bits first, each row filled up to whole bytes."""
    if bits == 8:
        return values.astype(np.uint8)
    values = np.concatenate([values, np.zeros((*values.shape[:-1], values.shape[-1] % 2), values.dtype)], -1) & 15
    return (values[..., ::2] | values[..., 1::2] << 4).astype(np.uint8)


class Model:
    """Products, each with an input of its own, and what they must be."""

    def __init__(self, free=False):
        self.random = np.random.default_rng(0)
        self.nodes, self.constants, self.inputs, self.wanted, self.free = [], [], {}, {}, free

    def constant(self, value, name, kind=None, dims=None):
        tensor = numpy_helper.from_array(np.ascontiguousarray(value), name) if kind is None else \
            helper.make_tensor(name, kind, dims, np.ascontiguousarray(value).tobytes(), raw=True)
        self.constants.append(tensor)
        return name

    def rows(self, rows, depth):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.random.standard_normal((*rows, depth)).astype(np.float32)
        return name

    def weights(self, depth, columns, bits, block, signed=False):
        """Numbers, a zero point and a scale for each block: [columns, blocks, block] and twice [columns, blocks]."""
        blocks = -(-depth // block)
        low = -(1 << bits - 1) if signed else 0
        numbers = self.random.integers(low, low + (1 << bits), (columns, blocks, block))
        zeros = self.random.integers(low, low + (1 << bits), (columns, blocks))
        return numbers, zeros, self.random.uniform(0.001, 0.02, (columns, blocks)).astype(np.float32)

    def want(self, x, numbers, zeros, scales, depth, bias=0):
        matrix = ((numbers - zeros[..., None]) * scales[..., None].astype(np.float64)).reshape(len(numbers), -1)[:, :depth]
        y = f"y{x}"
        self.wanted[y] = self.inputs[x].astype(np.float64) @ matrix.T + bias
        return y

    def n_bits(self, rows, depth, columns, bits, block, zero, has_bias=False):
        numbers, zeros, scales = self.weights(depth, columns, bits, block)
        x = self.rows(rows, depth)
        bias = self.random.standard_normal(columns).astype(np.float32) if has_bias else np.float32(0)
        operands = [x, self.constant(packed(numbers, bits), f"w{x}"), self.constant(scales.reshape(-1), f"s{x}"), "", "", ""]
        if zero == "none":
            zeros = np.full_like(zeros, 1 << bits - 1)
        elif zero == "packed":
            operands[3] = self.constant(packed(zeros, bits).reshape(-1), f"z{x}")
        else:
            zeros = zeros + np.float32(0.25)
            operands[3] = self.constant(zeros.astype(np.float32).reshape(-1), f"z{x}")
        if has_bias:
            operands[5] = self.constant(bias, f"b{x}")
        while not operands[-1]:
            operands.pop()
        y = self.want(x, numbers, zeros, scales, depth, bias)
        self.nodes.append(helper.make_node("MatMulNBits", operands, [y], domain=MICROSOFT, K=depth, N=columns, bits=bits, block_size=block))

    def dequantize(self, rows, depth, columns, bits, block, signed, has_zero, is_transposed):
        """With `block` of 0 a scale for each column, of -1 one for all."""
        per = block if block > 0 else depth
        numbers, zeros, scales = self.weights(depth, columns, bits, per, signed)
        if block < 0:
            zeros[:], scales[:] = zeros[0, 0], scales[0, 0]
        x = self.rows(rows, depth)
        if not has_zero:
            zeros = np.zeros_like(zeros)
        kind = SIZES[bits][2 if signed else 1]
        matrix = numbers.reshape(columns, depth)
        parameters = [scales, zeros]
        if not is_transposed:
            matrix, parameters = matrix.T, [p.T for p in parameters]
        if block <= 0:
            parameters = [p.reshape(-1) if block == 0 else p.reshape(-1)[0] for p in parameters]
        packing = lambda v: packed(np.asarray(v).reshape(1, -1), bits)
        operands = [self.constant(packing(matrix), f"w{x}", kind, matrix.shape), self.constant(parameters[0], f"s{x}")]
        if has_zero:
            operands.append(self.constant(packing(parameters[1]), f"z{x}", kind, np.shape(parameters[1])))
        depth_axis = 1 if is_transposed else 0
        axis = {"axis": depth_axis, "block_size": block} if block > 0 else {"axis": 1 - depth_axis} if block == 0 else {}
        self.nodes.append(helper.make_node("DequantizeLinear", operands, [f"d{x}"], **axis))
        y = self.want(x, numbers, zeros, scales, depth)
        self.nodes.append(helper.make_node("Gemm", [x, f"d{x}"], [y], transB=1) if is_transposed else helper.make_node("MatMul", [x, f"d{x}"], [y]))

    def save(self, path):
        def dims(value):
            return [f"n{i}" for i in range(value.ndim - 1)] + [value.shape[-1]] if self.free else value.shape

        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims(v)) for n, v in self.inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims(v)) for n, v in self.wanted.items()], self.constants)
        imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)

    def weight_count(self):
        return sum(v.shape[-1] * self.wanted[f"y{n}"].shape[-1] for n, v in self.inputs.items())


def peer(path):
    """ONNX Runtime without its fusions, of which one quantizes the other operand too."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class WeightOnly(ToolTest):
    def check(self, model):
        """Every level of this machine, and ONNX Runtime, to a tolerance of sums of so many floats."""
        model.save(self.folder / "m.onnx")
        np.savez(self.folder / "in.npz", **model.inputs)
        levels = [level["level"] for level in self.json("doctor")["levels"] if level["usable"]]
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:" + ",".join(levels))
        theirs = dict(zip(model.wanted, peer(self.folder / "m.onnx").run(list(model.wanted), model.inputs)))
        for level in levels:
            self.succeed("run", "m.tenon", "--variant", level, "--inputs", "in.npz", "-o", "out.npz")
            found = np.load(self.folder / "out.npz")
            for name, wanted in model.wanted.items():
                with self.subTest(level=level, output=name):
                    np.testing.assert_allclose(found[name], wanted, rtol=0, atol=3e-6 * np.abs(wanted).max())
                    np.testing.assert_allclose(found[name], theirs[name], rtol=0, atol=1e-5 * np.abs(wanted).max())

    def bytes_of_weights(self):
        self.succeed("compile", "m.onnx", "-o", "one.tenon", "--target", "cpu:avx2")
        return self.json("inspect", "one.tenon")["weights_bytes"]

    def test_n_bits(self):
        model = Model()
        for (i, bits), block, zero in itertools.product(enumerate((4, 8)), (16, 32, 64, 128), ("none", "packed")):
            model.n_bits(ROWS[(i + block // 16) % len(ROWS)], 200, 70, bits, block, zero, has_bias=block == 32)
        for rows in ROWS:
            model.n_bits(rows, 416, 96, 4, 32, "none")
            model.n_bits(rows, 320, 33, 8, 64, "packed")
        self.check(model)
        self.assertLess(self.bytes_of_weights(), 1.8 * model.weight_count())

    def test_float_zero_points(self):
        model = Model()
        for rows in ROWS:  # of 4 bits: ONNX Runtime has no others
            model.n_bits(rows, 400, 200, 4, 32, "float")
        self.check(model)
        self.assertLess(self.bytes_of_weights(), 0.9 * model.weight_count())

    def test_dequantize_linear(self):
        model = Model()
        forms = itertools.product((4, 8), (-1, 0, 16, 32), (False, True), (False, True))
        for i, (bits, block, signed, has_zero) in enumerate(forms):
            model.dequantize(ROWS[i % len(ROWS)] if i % 2 else (6,), 192, 75, bits, block, signed, has_zero, is_transposed=i % 2 == 0)
        for rows in ROWS:
            model.dequantize(rows, 301, 64, 8, 0, True, False, False)
        self.check(model)
        self.assertLess(self.bytes_of_weights(), 1.8 * model.weight_count())

    def test_a_projection_that_is_read_in_parts(self):
        model = Model()
        model.n_bits((3,), 256, 1536, 4, 32, "packed", has_bias=True)
        (name, whole), = model.wanted.items()
        parts = {f"part{i}": whole[:, 512 * i:512 * (i + 1)] for i in range(3)}
        model.nodes.append(helper.make_node("Split", [name], list(parts), axis=1, num_outputs=3))
        count, model.wanted = model.weight_count(), parts
        self.check(model)
        self.assertLess(self.bytes_of_weights(), 1.1 * count)

    def test_free_rows(self):
        model = Model(free=True)
        for bits, zero in itertools.product((4, 8), ("none", "packed")):
            model.n_bits((2, 65), 500, 190, bits, 32, zero)
        self.check(model)
        session = peer(self.folder / "m.onnx")
        for rows in ((1, 1), (1, 8), (3, 3), (4, 128)):
            model.inputs = {n: model.random.standard_normal((*rows, 500)).astype(np.float32) for n in model.inputs}
            np.savez(self.folder / "in.npz", **model.inputs)
            self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
            found = np.load(self.folder / "out.npz")
            for name, wanted in zip(model.wanted, session.run(list(model.wanted), model.inputs)):
                with self.subTest(rows=rows, output=name):
                    np.testing.assert_allclose(found[name], wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())

    def test_free_rows_of_bf16(self):
        """Weights stay numbers; many rows multiply them as bf16, few as floats, on levels with such an instruction and on others."""
        model = Model(free=True)
        for bits, zero in itertools.product((4, 8), ("none", "packed")):
            model.n_bits((2, 65), 500, 190, bits, 32, zero)
        model.n_bits((2, 65), 2048, 96, 4, 32, "packed")  # rows that would fill a set of the cache
        model.n_bits((2, 65), 333, 96, 4, 32, "packed")  # no whole words
        model.save(self.folder / "m.onnx")
        levels = [level["level"] for level in self.json("doctor")["levels"] if level["usable"]]
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:" + ",".join(levels), "--precision", "bf16")
        self.succeed("compile", "m.onnx", "-o", "one.tenon", "--target", "cpu:avx2", "--precision", "bf16")
        self.assertLess(self.json("inspect", "one.tenon")["weights_bytes"], 1.2 * model.weight_count())
        session = peer(self.folder / "m.onnx")
        for rows, level in itertools.product(((1, 1), (1, 8), (3, 3), (4, 32)), levels):
            inputs = {n: model.random.standard_normal((*rows, x.shape[-1])).astype(np.float32) for n, x in model.inputs.items()}
            np.savez(self.folder / "in.npz", **inputs)
            self.succeed("run", "m.tenon", "--variant", level, "--inputs", "in.npz", "-o", "out.npz")
            found = np.load(self.folder / "out.npz")
            for name, wanted in zip(model.wanted, session.run(list(model.wanted), inputs)):
                with self.subTest(rows=rows, level=level, output=name):
                    difference = np.max(np.abs(found[name].astype(np.float64) - wanted)) / np.abs(wanted).max()
                    self.assertLess(difference, 4 * 2.0**-9)  # rows, weights and results are each rounded by at most 2^-9
                    self.assertGreater(difference, 2.0**-14)

    def test_tables_that_are_gathered_from(self):
        random = np.random.default_rng(2)
        constants, nodes, rows = [], [], {}
        for name, bits, shape, axis in (("one", 8, (), 1), ("each_row", 8, (3000,), 0), ("each_column", 8, (64,), 1), ("four", 4, (3000,), 0)):
            low = -(1 << bits - 1)
            table = random.integers(low, -low, (3000, 64))
            scale, zero = random.uniform(0.01, 0.1, shape).astype(np.float32), random.integers(low, -low, shape)
            kind = SIZES[bits][2]
            constants += [helper.make_tensor(name, kind, table.shape, packed(table.reshape(1, -1), bits).tobytes(), raw=True),
                          numpy_helper.from_array(np.asarray(scale), f"{name}_s"),
                          helper.make_tensor(f"{name}_z", kind, shape, packed(np.asarray(zero).reshape(1, -1), bits).tobytes(), raw=True)]
            nodes += [helper.make_node("DequantizeLinear", [name, f"{name}_s", f"{name}_z"], [f"{name}_d"], axis=axis),
                      helper.make_node("Gather", [f"{name}_d", "i"], [f"{name}_y"])]
            along = [np.reshape(p, (-1, 1)) if axis == 0 else p for p in (scale, zero)]
            rows[f"{name}_y"] = (table - along[1]).astype(np.float32) * along[0]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("i", TensorProto.INT64, ["b", "n"])],
                                  [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", "n", 64]) for n in rows], constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), self.folder / "m.onnx")
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:avx2")
        self.assertLess(self.json("inspect", "m.tenon")["weights_bytes"], 1.1 * 4 * 3000 * 64)
        indices = random.integers(-3000, 3000, (2, 7))
        np.savez(self.folder / "in.npz", i=indices)
        self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
        found = np.load(self.folder / "out.npz")
        for name, table in rows.items():
            with self.subTest(table=name):
                np.testing.assert_array_equal(found[name], table[indices])

    def test_bad_input_is_an_error_that_names_the_node(self):
        def dequantize(scale, zero=None, **attributes):
            values = [np.ones((64, 32), np.int8), np.asarray(scale, np.float32)] + ([] if zero is None else [zero])
            return "DequantizeLinear", values, attributes

        def n_bits(scales=np.ones(64), zero=None, shape=(32, 2, 16), extra=()):
            values = [np.ones(shape, np.uint8), np.asarray(scales, np.float32)] + ([] if zero is None else [zero])
            return "MatMulNBits", [*values, *extra], {"K": 64, "N": 32, "bits": 4, "block_size": 32}

        grid = np.ones((2, 32))
        cases = [(dequantize(0.1, np.uint8(1)), "TN0236", "different element types"), (dequantize(np.ones(32), axis=5), "TN0219", "axis 5"),
                 (dequantize(np.ones(31), axis=1), "TN0236", "31 and 32 differ"),
                 (dequantize(grid, axis=0, block_size=24), "TN0301", "one scale per block"),
                 (dequantize(np.ones((2, 31)), axis=0, block_size=32), "TN0301", "one scale per block"),
                 (dequantize(grid, np.ones((1, 32), np.int8), axis=0, block_size=32), "TN0236", "64 scales, but 32 zero points"),
                 (dequantize(grid, np.ones((2, 32), np.uint8), axis=0, block_size=32), "TN0236", "different element types"),
                 (dequantize(np.nan), "TN0236", "its scale is nan"), (dequantize([[np.inf] * 32] * 2, axis=0, block_size=32), "TN0236", "its scale is inf"),
                 (n_bits(np.full(64, np.nan)), "TN0236", "its scale is nan"), (n_bits(np.ones(63)), "TN0236", "weights or scales"), (n_bits(shape=(32, 2, 15)), "TN0236", "weights or scales"),
                 (n_bits(zero=np.ones(31, np.uint8)), "TN0236", "zero points"), (n_bits(zero=np.ones(64, np.int32)), "TN0236", "zero points"),
                 (n_bits(zero=np.ones(32, np.uint8), extra=[np.zeros((1, 64), np.int32)]), "TN0236", "one group per row")]
        for scale in (0, np.nan, -0.5, 1e-42):
            cases.append((("QuantizeLinear", [np.float32(scale)], {}), "TN0236", "its scale is"))
        for (operator, values, attributes), code, text in cases:
            names = [f"v{i}" for i in range(len(values))]
            constants = [numpy_helper.from_array(np.asarray(v), n) for v, n in zip(values, names)]
            operands = names if operator == "DequantizeLinear" else ["x", *names]
            domain = MICROSOFT if operator == "MatMulNBits" else ""
            nodes = [helper.make_node(operator, operands, ["y"], name="the_node", domain=domain, **attributes)]
            kind = TensorProto.UINT8 if operator == "QuantizeLinear" else TensorProto.FLOAT
            graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 64])],
                                      [helper.make_tensor_value_info("y", kind, None)], constants)
            imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
            onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), self.folder / "bad.onnx")
            with self.subTest(operator=operator, attributes=attributes, text=text):
                done = self.call("compile", "bad.onnx", "-o", "bad.tenon", "--target", "cpu:avx2")
                self.assertIn(done.returncode, (3, 5))
                for part in (code, "the_node", text):
                    self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
