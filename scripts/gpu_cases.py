"""The cases of measure_gpu.py: for each its ONNX graph, its inputs and the same computation as a torch module.

Relies on onnx and numpy; torch is only imported when a module is asked for. Kernels are small graphs made here.
"""

import functools
import pathlib
import sys
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "models"))

import inputs  # noqa: E402
import llama_decode  # noqa: E402

ELEMENTS = 1 << 27  # of a tensor of 256 MiB in fp16
WIDTHS = (128, 512, 1024, 4096, 16384, 65536, 262144)
CONTEXT = 1000
EPSILON = 1e-5


@dataclass
class Case:
    name: str
    precision: str = "fp16"
    sizes: dict = field(default_factory=dict)
    graph: str = ""  # of the tree; empty for a kernel, which `make` builds
    make: object = None
    module: object = None
    moved: int = 0  # bytes that a kernel must read and write; 0 for a model

    def model(self):
        return onnx.load(str(ROOT / self.graph), load_external_data=False) if self.graph else self.make()

    def arrays(self, model):
        """Inputs by name, the same for everyone."""
        if self.graph:
            made = inputs.make_inputs(model, self.sizes)
            if "position_ids" in made:
                made["position_ids"][:] = CONTEXT
                # A session's state begins with zeros: so do the caches of everyone else.
                made.update((name, np.zeros_like(array)) for name, array in made.items() if name.startswith("past_"))
            return made
        return {name: np.resize(block, dims) for name, (block, dims) in self.blocks(model).items()}

    def blocks(self, model):
        """Of a kernel: by name what an input repeats, and its dims. 2^27 normal numbers would take longer than everything else."""
        generator = np.random.default_rng(0)
        made = {}
        for value in model.graph.input:
            dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            made[value.name] = (generator.standard_normal(1 << 20, np.float32).astype(dtype), dims)
        return made


def kernel(name, arguments, dims, steps, weights=(), dtype=TensorProto.FLOAT16):
    """A model of a few nodes; `steps` are (operator, operands, result, attributes), the last gives the output."""
    numbers = np.random.default_rng(1)
    stored = [numpy_helper.from_array((numbers.standard_normal(extent) * 0.2 + center).astype(
        helper.tensor_dtype_to_np_dtype(dtype)), weight) for weight, extent, center in weights]
    nodes = [helper.make_node(op, operands, [result], **attributes) for op, operands, result, attributes in steps]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(x, dtype, dims) for x in arguments],
                              [helper.make_tensor_value_info(steps[-1][2], dtype, dims)], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def layer_norm(width):
    return [("gamma", width, 1.0), ("beta", width, 0.0)]


# Kernel name → (inputs, steps, weights of a width, torch expression of the inputs and the weights).
NORM = {"axis": -1, "epsilon": EPSILON}
KERNELS = {
    "softmax": ("x", [("Softmax", ["x"], "y", {"axis": -1})], lambda width: [],
                lambda f, x: f.softmax(x, -1)),
    "layer_norm": ("x", [("LayerNormalization", ["x", "gamma", "beta"], "y", NORM)], layer_norm,
                   lambda f, x, gamma, beta: f.layer_norm(x, gamma.shape, gamma, beta, EPSILON)),
    "rms_norm": ("x", [("RMSNormalization", ["x", "gamma"], "y", NORM)], lambda width: layer_norm(width)[:1],
                 lambda f, x, gamma: f.rms_norm(x, gamma.shape, gamma, EPSILON)),
    "bias_gelu": ("x", [("Add", ["x", "beta"], "h", {}), ("Gelu", ["h"], "y", {})], lambda width: layer_norm(width)[1:],
                  lambda f, x, beta: f.gelu(x + beta)),
    "add_norm": ("xr", [("Add", ["x", "r"], "h", {}), ("LayerNormalization", ["h", "gamma", "beta"], "y", NORM)],
                 layer_norm, lambda f, x, r, gamma, beta: f.layer_norm(x + r, gamma.shape, gamma, beta, EPSILON)),
    "chain": ("xr", [("Add", ["x", "r"], "h", {}), ("LayerNormalization", ["h", "gamma", "beta"], "n", NORM),
                     ("Gelu", ["n"], "g", {}), ("Mul", ["g", "scale"], "s", {}), ("Add", ["s", "h"], "y", {})],
              lambda width: [*layer_norm(width), ("scale", width, 1.0)],
              lambda f, x, r, gamma, beta, scale:
              f.gelu(f.layer_norm(x + r, gamma.shape, gamma, beta, EPSILON)) * scale + (x + r)),
    "vector_add": ("xr", [("Add", ["x", "r"], "y", {})], lambda width: [], lambda f, x, r: x + r),
    "pointwise": ("xr", [("Mul", ["x", "r"], "p", {}), ("Sigmoid", ["p"], "s", {}), ("Add", ["s", "x"], "a", {}),
                         ("Relu", ["a"], "y", {})], lambda width: [],
                  lambda f, x, r: f.relu(f.sigmoid(x * r) + x)),
}


def kernel_module(name, model):
    """The torch expression as a module whose parameters are the graph's initializers."""
    import torch

    class Kernel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for tensor in model.graph.initializer:
                value = torch.from_numpy(numpy_helper.to_array(tensor).copy())
                self.register_parameter(tensor.name, torch.nn.Parameter(value, requires_grad=False))

        def forward(self, *tensors):
            return KERNELS[name][3](torch.nn.functional, *tensors, *self.parameters())

    return Kernel()


def kernel_case(name, rows, width, precision="fp16"):
    arguments, steps, weights, _ = KERNELS[name]
    dtype = TensorProto.FLOAT if precision == "keep" else TensorProto.FLOAT16
    dims = [rows, width] if rows > 1 or name not in ("vector_add", "pointwise") else [width]
    make = functools.partial(kernel, name, arguments, dims, steps, weights(width), dtype)
    bytes_each = rows * width * (4 if dtype == TensorProto.FLOAT else 2)
    label = f"{name} {rows}x{width}" if len(dims) == 2 else f"{name} {width}"
    return Case(label.replace(" ", "_"), "keep", {}, "", make, lambda: kernel_module(name, make()),
                (len(arguments) + 1) * bytes_each)


def model_case(name, graph, sizes, module, precision="fp16"):
    suffix = f"_b{sizes['batch']}" + (f"_s{sizes['sequence']}" if "sequence" in sizes else "")
    return Case(name + suffix, precision, sizes, graph, None, module)


def torch_model(kind, **arguments):
    def make():
        import gpu_torch
        return getattr(gpu_torch, kind)(**arguments)
    return make


LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}


def all_cases():
    cases = [model_case("bert_base", "models/graphs/bert_base.dynamo.onnx", {"batch": batch, "sequence": 128},
                        torch_model("Bert")) for batch in (1, 32)]
    cases += [model_case("bert_large", "models/large/bert_large.dynamo.onnx", {"batch": batch, "sequence": 384},
                         torch_model("Bert", **LARGE)) for batch in (1, 64)]
    for name, graph, kind in (("resnet50", "resnet50.torchscript", "ResNet50"), ("vit_b16", "vit_b16.dynamo", "VitB16")):
        cases += [model_case(name, f"models/graphs/{graph}.onnx", {"batch": batch}, torch_model(kind)) for batch in (1, 64)]
    cases += [model_case("llama_1b_decode", "models/large/llama_1b_decode.onnx", {"batch": batch},
                         torch_model("Llama", shape=llama_decode.Shape()), "bf16") for batch in (1, 16)]
    cases += [kernel_case("chain", 65536, 4096), kernel_case("chain", 128, 768)]
    cases += [kernel_case(name, ELEMENTS // width, width) for name in ("softmax", "layer_norm", "rms_norm", "bias_gelu", "add_norm")
              for width in WIDTHS]
    cases += [kernel_case(name, 1, count, "keep") for name in ("vector_add", "pointwise")
              for count in (1 << 14, 1 << 18, 1 << 22, 1 << 26)]
    return {case.name: case for case in cases}
