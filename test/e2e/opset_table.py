"""Operators that opsets 7 to 21 spell or mean otherwise, in one model of each opset: no test itself, quantize_branches runs it."""

import numpy as np
from onnx import TensorProto as T
from onnx import helper, numpy_helper

N = helper.make_node
RANDOM = np.random.default_rng(5)
FEEDS = {name: RANDOM.standard_normal(dims).astype(np.float32) for name, dims in {"x": (2, 4, 6, 6), "s": (2, 4, 6), "m": (3, 8)}.items()}


def normal(*dims):
    return RANDOM.standard_normal(dims).astype(np.float32)


def cases(v):
    """Name, nodes whose last result is `o`, and constants."""
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in (None, 1, 3) + ((-2,) if v >= 11 else ()):
            own = {} if axis is None else {"axis": axis}
            yield f"{op}_{axis}", [N(op, ["x"], ["o"], **own)], {}
            yield f"{op}_{axis}_data", [N("Abs", ["d"], ["d1"]), N("Reshape", ["x", "d1"], ["r"]), N(op, ["r"], ["o"], **own)], {"d": np.int64([2, 4, 6, 6])}
    for op in ("ReduceSum", "ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceMax"):
        is_operand = v >= (13 if op == "ReduceSum" else 18)
        yield op, [N(op, ["s", "a"], ["o"], keepdims=0) if is_operand else N(op, ["s"], ["o"], keepdims=0, axes=[1])], {"a": np.int64([1])} if is_operand else {}
        yield op + "_all", [N(op, ["s"], ["o"])], {}
    for op, axes in (("Unsqueeze", [0, 2]),):
        yield op, [N(op, ["s"], ["o"], axes=axes) if v < 13 else N(op, ["s", "a"], ["o"])], {} if v < 13 else {"a": np.int64(axes)}
    parts = {"axis": 1} | ({"num_outputs": 2} if v >= 18 else {})
    yield "split_even", [N("Split", ["x"], ["p", "q"], **parts), N("Sub", ["p", "q"], ["o"])], {}
    yield "split", [N("Split", ["x"] if v < 13 else ["x", "k"], ["p", "q"], axis=1, **({"split": [1, 3]} if v < 13 else {})), N("Concat", ["q", "p"], ["o"], axis=1)], {} if v < 13 else {"k": np.int64([1, 3])}
    for name, low, high in (("both", -0.5, 0.5), ("low", -0.5, None), ("high", None, 0.5)):
        bounds = {key: np.float32(bound) for key, bound in (("low", low), ("high", high)) if bound is not None}
        yield f"clip_{name}", [N("Clip", ["x"], ["o"], **{{"low": "min", "high": "max"}[key]: float(bound) for key, bound in bounds.items()}) if v < 11 else N("Clip", ["x", *(key if key in bounds else "" for key in ("low", "high"))], ["o"])], {} if v < 11 else bounds
    pads = [0, 0, 1, 2, 0, 0, 0, 1]
    for mode in ("constant", "reflect"):
        yield f"pad_{mode}", [N("Pad", ["x"], ["o"], mode=mode, pads=pads, value=1.5) if v < 11 else N("Pad", ["x", "p", "c"], ["o"], mode=mode)], {} if v < 11 else {"p": np.int64(pads), "c": np.float32(1.5)}
    yield "slice", [N("Slice", ["x"], ["o"], starts=[1, 0], ends=[3, -1], axes=[1, 2]) if v < 10 else N("Slice", ["x", "b", "e", "a"], ["o"])], {} if v < 10 else {"b": np.int64([1, 0]), "e": np.int64([3, -1]), "a": np.int64([1, 2])}
    yield "topk", [N("TopK", ["s"], ["o", "i"], k=3, axis=2) if v < 10 else N("TopK", ["s", "k"], ["o", "i"], axis=2)], {} if v < 10 else {"k": np.int64([3])}
    for mode in ("nearest", "linear"):
        for scales in ([1, 1, 2, 2.5], [1, 1, 0.5, 0.67], [1, 1, 0.6, 1.5]):
            if v < 10 and min(scales) < 1:
                continue
            name, factors = f"{mode}_{scales[2]}_{scales[3]}", np.float32(scales)
            if v < 9:
                yield name, [N("Upsample", ["x"], ["o"], mode=mode, scales=[float(each) for each in scales])], {}
            elif v < 11:
                yield name, [N("Upsample" if v < 10 else "Resize", ["x", "k"], ["o"], mode=mode)], {"k": factors}
            else:
                yield name, [N("Resize", ["x", "roi", "k"], ["o"], mode=mode)], {"k": factors, "roi": np.zeros(0, np.float32)}
    yield "norm", [N("BatchNormalization", ["x", "g", "h", "u", "w"], ["o"])], {"g": normal(4), "h": normal(4), "u": normal(4), "w": abs(normal(4))}
    yield "dropout", [N("Dropout", ["x"], ["o"], **({"ratio": 0.3} if v < 12 else {}))], {}
    if v >= 9:
        yield "scatter", [N("Scatter" if v < 11 else "ScatterElements", ["s", "i", "u"], ["o"], axis=1)], {"i": np.int64([[[0, 1, 2, 3, 1, 1]], [[2, 2, 1, 0, 3, 0]]]), "u": normal(2, 1, 6)}
    if v >= 10:
        boxes = {"r": np.float32([[0, 0, 4, 4], [1, 2, 5, 5]]), "b": np.int64([0, 1])}
        yield "roi", [N("RoiAlign", ["x", "r", "b"], ["o"], output_height=3, output_width=3, sampling_ratio=2)], boxes
    if v >= 16:
        for mode in ("bilinear", "bicubic", "nearest"):
            yield f"grid_{mode}", [N("GridSample", ["x", "g"], ["o"], mode=mode)], {"g": np.clip(normal(2, 3, 3, 2), -1, 1)}
    if v >= 17:
        yield "dft", [N("Unsqueeze", ["s", "a"], ["c"]), N("DFT", ["c"], ["o"], axis=2)], {"a": np.int64([3])}
    if v == 18:
        yield "groups", [N("GroupNormalization", ["x", "g", "h"], ["o"], num_groups=2)], {"g": normal(2), "h": normal(2)}
    side = lambda name, nodes: helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(nodes[-1].output[0], T.FLOAT, None)])
    yield "branch", [N("ReduceMax", ["m"], ["most"], keepdims=0), N("Cast", ["most"], ["is"], to=T.BOOL),
                     N("If", ["is"], ["o"], then_branch=side("t", [N("Softmax", ["x"], ["t1"])]), else_branch=side("e", [N("Softmax", ["x"], ["e1"], axis=2)]))], {}


def model_of(opset):
    """The table's model, with two products for quantization, and its outputs but for theirs."""
    nodes = [N("MatMul", ["m", "w0"], ["a"], name="first"), N("Relu", ["a"], ["b"]), N("MatMul", ["b", "w1"], ["c"], name="second"), N("Relu", ["c"], ["d"]), N("MatMul", ["d", "w2"], ["end"], name="third")]
    constants, names = {"w0": normal(8, 64), "w1": normal(64, 256), "w2": normal(256, 64)}, []
    for name, own, values in cases(opset):
        rename = lambda value: value if value in FEEDS or not value else f"{name}.{value}"
        for node in own:
            node.input[:], node.output[:] = map(rename, node.input), map(rename, node.output)
            nodes.append(node)
        for attribute in [each for node in own for each in node.attribute if each.HasField("g")]:
            for inner in attribute.g.node:
                inner.output[0] = rename(inner.output[0])
            attribute.g.output[0].name = rename(attribute.g.output[0].name)
        constants |= {rename(key): value for key, value in values.items()}
        names.append(rename("o"))
    inputs = [helper.make_tensor_value_info(name, T.FLOAT, value.shape) for name, value in FEEDS.items()]
    outputs = [helper.make_tensor_value_info(name, T.FLOAT, None) for name in [*names, "end"]]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), names
