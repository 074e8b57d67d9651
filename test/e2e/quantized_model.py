"""What the tests of quantized operators share: a model of many outputs, each with what it must be, and its run on every level."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tool import ToolTest


class QuantizedModel:
    """Nodes, and for each output what it must be."""

    def __init__(self):
        self.random = np.random.default_rng(0)
        self.nodes, self.constants, self.inputs, self.wanted, self.free = [], [], {}, {}, set()

    def node(self, op, operands, *names, **attributes):
        self.nodes.append(helper.make_node(op, operands, list(names), **attributes))
        return names[0]

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def numbers(self, kind, *dims):
        limits = np.iinfo(kind)
        return self.random.integers(limits.min, limits.max + 1, dims).astype(kind)

    def free_dims(self, name, value):
        """The dims of an input or output in `free`."""
        raise NotImplementedError

    def save(self, path):
        def dims(name, value):
            return self.free_dims(name, value) if name in self.free else value.shape

        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims(n, v)) for n, v in self.inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.INT32 if v.dtype == np.int64 else TensorProto.FLOAT, dims(n, v))
             for n, v in self.wanted.items()], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class QuantizedTest(ToolTest):
    @classmethod
    def save(cls, model):
        model.save(cls.folder / "m.onnx")
        np.savez(cls.folder / "in.npz", **model.inputs)

    def check_levels(self, model, step_of=lambda name, wanted: 0):
        """Runs the saved model on every level of this machine: integers are equal, numbers within a millionth and what `step_of` allows."""
        levels = [level["level"] for level in self.json("doctor")["levels"] if level["usable"]]
        self.assertIn("x86-64-v3", levels)
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:" + ",".join(levels))
        for level in levels:
            self.succeed("run", "m.tenon", "--variant", level, "--inputs", "in.npz", "-o", "out.npz")
            self.check_outputs(model, level, step_of)

    def check_outputs(self, model, level, step_of):
        found = np.load(self.folder / "out.npz")
        for name, wanted in model.wanted.items():
            with self.subTest(level=level, output=name):
                if wanted.dtype == np.int64:
                    np.testing.assert_array_equal(found[name], wanted)
                else:
                    atol = step_of(name, wanted) + 1e-6 * np.abs(wanted).max()
                    np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=atol)
