"""Passes over a model's graph: python examples/passes.py MODEL.onnx runs each on a model and says what it did."""

import math
import sys

import numpy as np

import tenon
from tenon import passes


@passes.rewrite(tolerance=math.inf)
def relu_to_gelu(graph):
    """Another activation: the outputs change, and the report says by how much."""
    for match in graph.match("relu(x)"):
        match.replace(graph.create("gelu", match["x"]))


@passes.rewrite
def fold_batch_norm(graph):
    """Convolution, normalization and activation as one convolution and the activation, by hand: equal up to rounding."""
    pattern = "relu(n:batch_norm(c:conv(x, w, groups=1), scale, shift, mean, variance))"
    for match in graph.match(pattern):
        conv, norm = match["c"].producer, match["n"].producer
        scale, shift, mean, variance = (match[name].numpy().astype(float) for name in ("scale", "shift", "mean", "variance"))
        factor = scale / np.sqrt(variance + norm.attributes["epsilon"])
        weight = match["w"].numpy()
        folded = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
        bias = shift - mean * factor
        result = graph.create(
            "conv", match["x"], graph.constant(folded.astype(weight.dtype)), graph.constant(bias.astype(weight.dtype)),
            **conv.attributes,
        )  # fmt: skip
        match.replace(graph.create("relu", result))


@passes.rewrite
def tap_products(graph):
    """What each matrix product gives becomes an output too."""
    for index, match in enumerate(graph.match("matmul(_, _)")):
        graph.add_output(match.node.result, f"product.{index}")


@passes.rewrite(tolerance=math.inf)
def layer_norm_to_rms_norm(graph):
    """A norm that takes no mean off, with the same scale."""
    for match in graph.match("layer_norm(x, scale, ...)"):
        attributes = match.node.attributes
        match.replace(graph.create("rms_norm", match["x"], match["scale"], **attributes))


class CountFlops:
    """Looks and changes nothing: arithmetic operations by kind of node."""

    def __init__(self, **symbols):
        self.symbols, self.counts = symbols, {}

    def __call__(self, graph):
        for node in graph.nodes:
            if node.op != "constant":
                self.counts[node.op] = self.counts.get(node.op, 0) + node.flops(**self.symbols)


def main():
    model = sys.argv[1]
    counter = CountFlops()
    for one in (relu_to_gelu, fold_batch_norm, tap_products, layer_norm_to_rms_norm, passes.Pass(counter, "count-flops")):
        report = tenon.compile(model, passes=[one]).report["passes"][0]
        print(report["name"], {key: report[key] for key in ("nodes_before", "nodes_after", "edits", "largest_change")})
    print(counter.counts)


if __name__ == "__main__":
    main()
