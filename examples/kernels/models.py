"""The reference of the kernels, vector_add.onnx, and a model with the operator, add_model.onnx: python models.py [FOLDER]."""

import pathlib
import sys

import onnx
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def tensor(name: str, *dims):
    return helper.make_tensor_value_info(name, FLOAT, dims)


def save(nodes, inputs, path: pathlib.Path, domains=()) -> None:
    graph = helper.make_graph(nodes, path.stem, inputs, [tensor("c", "n")])
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def main(folder: pathlib.Path) -> None:
    # The reference takes the attributes as scalars behind the inputs.
    formula = [helper.make_node("Mul", ["b", "alpha"], ["scaled"]), helper.make_node("Add", ["a", "scaled"], ["c"])]
    save(formula, [tensor("a", "n"), tensor("b", "n"), tensor("alpha")], folder / "vector_add.onnx")
    node = helper.make_node("vector_add", ["a", "b"], ["c"], name="add", domain="example", alpha=0.5)
    save([node], [tensor("a", "n"), tensor("b", "n")], folder / "add_model.onnx", ["example"])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
