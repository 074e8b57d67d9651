"""Writes the ONNX models of these tests into a folder. Relies on onnx, which the tests' environment lacks."""

import pathlib
import sys

import numpy
import onnx
from onnx import TensorProto, helper


def save(folder, name, nodes, inputs, outputs, constants=None):
    values = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL, "h": TensorProto.BFLOAT16}
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info(n, values[t], dims) for n, t, dims in inputs],
        [helper.make_tensor_value_info(n, values[t], dims) for n, t, dims in outputs],
        [onnx.numpy_helper.from_array(value, key) for key, value in (constants or {}).items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.example", 1)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    node = helper.make_node
    rng = numpy.random.default_rng(0)
    weight = rng.standard_normal((8, 3), numpy.float32)
    numpy.save(folder / "linear.npy", weight)
    save(folder, "linear", [node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["y"])],
         [("x", "f", ["batch", 8])], [("y", "f", ["batch", 3])], {"w": weight})  # fmt: skip
    save(folder, "tiny", [node("Add", ["x", "x"], ["y"])], [("x", "f", [4])], [("y", "f", [4])])
    save(folder, "two", [node("Sub", ["a", "b"], ["d"]), node("Add", ["a", "b"], ["s.um"])],
         [("a", "f", [2, 3]), ("b", "f", [2, 3])], [("d", "f", [2, 3]), ("s.um", "f", [2, 3])])  # fmt: skip
    save(folder, "nonzero", [node("NonZero", ["x"], ["y"])], [("x", "f", ["n"])], [("y", "i", [1, "k"])])
    save(folder, "running", [node("Add", ["x", "before"], ["after"]), node("Add", ["after", "after"], ["y"])],
         [("x", "f", [2]), ("before", "f", [2])], [("y", "f", [2]), ("after", "f", [2])])  # fmt: skip
    save(folder, "gaps", [node("Mystery", ["x"], ["y"], name="the_one", domain="com.example")],
         [("x", "f", [3])], [("y", "f", [3])])  # fmt: skip
    save(folder, "scalar", [node("ReduceSum", ["x"], ["y"], keepdims=0)], [("x", "f", [4])], [("y", "f", [])])
    save(folder, "normed", [node("LayerNormalization", ["x", "scale", "bias"], ["n"], axis=-1), node("MatMul", ["n", "w"], ["y"])],
         [("x", "f", ["batch", 8])], [("y", "f", ["batch", 3])],
         {"scale": rng.standard_normal(8, numpy.float32), "bias": rng.standard_normal(8, numpy.float32), "w": weight})  # fmt: skip
    # Many different regions, so that compiling takes a while and can be interrupted.
    nodes, constants, value = [], {}, "x"
    for index in range(24):
        size, following = 16 + 8 * index, 16 + 8 * (index + 1)
        constants[f"w{index}"] = rng.standard_normal((size, following), numpy.float32)
        nodes += [node("MatMul", [value, f"w{index}"], [f"p{index}"]), node("Softmax", [f"p{index}"], [f"v{index}"])]
        value = f"v{index}"
    save(folder, "long", nodes, [("x", "f", ["batch", 16])], [(value, "f", ["batch", 16 + 8 * 24])], constants)
    (folder / "done").touch()


if __name__ == "__main__":
    main()
