"""Free sizes: small nets with free batch, height, width and length are compiled once, and run at sizes that the export never saw.

Relies on ONNX Runtime for the numbers. A net names the sizes that it must answer, and those that break a relation between its sizes;
these are answered with TN0612 and the node.
"""

import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tool import ToolTest

FLOAT = TensorProto.FLOAT


class Net:
    """Collects nodes; `at(operator, inputs, ...)` gives the name of its result."""

    def __init__(self, **inputs):
        self.inputs, self.nodes, self.weights = inputs, [], []
        self.seeded = np.random.default_rng(5)

    def at(self, operator, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        ins = [self.constant(i) if isinstance(i, (np.ndarray, list, int)) else i for i in inputs]
        self.nodes.append(helper.make_node(operator, ins, names, name=f"{operator}_{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, None if isinstance(value, np.ndarray) else np.int64), name))
        return name

    def conv(self, x, channels, out, kernel=3, operator="Conv", **attributes):
        shape = (channels, out) if operator == "ConvTranspose" else (out, channels)
        scale = 1 / np.float32(kernel * np.sqrt(channels))  # maps keep their spread
        weight = self.seeded.standard_normal((*shape, kernel, kernel)).astype(np.float32) * scale
        return self.at(operator, x, weight, **attributes)

    def size(self, x, axis):
        return self.at("Shape", x, start=axis, end=axis + 1)

    def model(self, *results):
        ports = [helper.make_tensor_value_info(name, FLOAT, dims) for name, dims in self.inputs.items()]
        outputs = [helper.make_empty_tensor_value_info(name) for name in results]
        graph = helper.make_graph(self.nodes, "g", ports, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


IMAGE = {"x": ["N", 3, "H", "W"]}
ODD = [{"N": 1, "H": 37, "W": 41}, {"N": 2, "H": 50, "W": 33}, {"N": 3, "H": 64, "W": 48}, {"N": 1, "H": 35, "W": 70}]
EVEN = [{"N": n, "H": 32 * h, "W": 32 * w} for n, h, w in [(1, 1, 2), (2, 3, 1), (3, 2, 2), (1, 2, 3)]]
CASES = {}


def case(good, bad=()):
    def add(function):
        CASES[function.__name__] = (function, good, bad)
        return function
    return add


def unet(down, up, join, levels=3):
    n = Net(**IMAGE)
    maps = [n.conv("x", 3, 4, pads=[1] * 4)]
    for _ in range(levels):
        maps.append(down(n, maps[-1]))
    y = maps.pop()
    while maps:
        y = up(n, y)
        skip = maps.pop()
        y = n.at("Add", y, skip) if join == "Add" else n.conv(n.at("Concat", y, skip, axis=1), 8, 4, 1)
    return n.model(n.at("Relu", y))


DOWN = {
    "pooled": lambda n, x: n.at("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]),
    "pooled_up": lambda n, x: n.at("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    "strided": lambda n, x: n.conv(x, 4, 4, pads=[1] * 4, strides=[2, 2]),
}
UP = {
    "resized": lambda n, x: n.at("Resize", x, "", np.array([1, 1, 2, 2], np.float32), mode="nearest",
                                 coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "transposed": lambda n, x: n.conv(x, 4, 4, 2, "ConvTranspose", strides=[2, 2]),
    "transposed_padded": lambda n, x: n.conv(x, 4, 4, 4, "ConvTranspose", strides=[2, 2], pads=[1] * 4),
}
for down_name, down in DOWN.items():
    for up_name, up in UP.items():
        for join in ("Add", "Concat"):
            CASES[f"unet_{down_name}_{up_name}_{join}"] = (
                lambda down=down, up=up, join=join: unet(down, up, join), EVEN, [{"N": 1, "H": 36, "W": 32}])


@case([{"N": 2, "H": h, "W": w} for h, w in [(9, 18), (12, 24), (36, 9), (33, 33)]], [{"N": 1, "H": 10, "W": 12}])
def thirds_of_two_chains():
    """Two chains of windows of different strides that meet: no symbol decides the relation."""
    n = Net(**IMAGE)
    third = n.at("MaxPool", "x", kernel_shape=[3, 3], strides=[3, 3])
    other = n.at("MaxPool", "x", kernel_shape=[2, 2], strides=[3, 3], pads=[0, 0, 1, 1])
    return n.model(n.at("Relu", n.at("Add", third, other)))


@case([{"A": a, "B": a, "N": n} for a, n in [(4, 1), (7, 2), (9, 3), (5, 4)]], [{"A": 4, "B": 5, "N": 1}])
def equal_lengths():
    n = Net(x=["N", "A", 8], z=["N", "B", 8])
    return n.model(n.at("Softmax", n.at("Add", "x", "z"), axis=-1))


@case([{"A": a, "B": b, "N": n} for a, b, n in [(4, 4, 1), (8, 9, 2), (9, 8, 3), (16, 16, 1)]], [{"A": 4, "B": 9, "N": 1}])
def halves_of_two_lengths():
    n = Net(x=["N", 4, "A"], z=["N", 4, "B"])
    halves = [n.at("MaxPool", i, kernel_shape=[2], strides=[2]) for i in ("x", "z")]
    return n.model(n.at("Relu", n.at("Concat", *halves, axis=1)))


@case([{"A": 9, "B": 8}, {"A": 8, "B": 9}, {"A": 4, "B": 5}, {"A": 13, "B": 12}], [{"A": 4, "B": 9}])
def product_over_halves():
    n = Net(x=[4, "A"], z=[1, 4, "B"])
    left = n.at("MaxPool", n.at("Unsqueeze", "x", [0]), kernel_shape=[2], strides=[2])
    right = n.at("MaxPool", "z", kernel_shape=[2], strides=[2])
    return n.model(n.at("Softmax", n.at("MatMul", left, n.at("Transpose", right, perm=[0, 2, 1])), axis=-1))


@case([{"A": a, "N": n} for a, n in [(33, 1), (40, 2), (60, 3), (80, 1)]], [{"A": 90, "N": 1}])
def reshape_by_a_factor_of_one():
    n = Net(x=["N", 4, "A"])
    y = n.at("MaxPool", "x", kernel_shape=[33], strides=[48])
    return n.model(n.at("Relu", n.at("Reshape", y, n.at("Concat", n.size("x", 0), [4], axis=0))))


@case([{"A": a, "N": n} for a, n in [(33, 1), (40, 2), (60, 3), (80, 1)]], [{"A": 90, "N": 1}])
def squeeze_of_a_window_count():
    n = Net(x=["N", 4, "A"])
    return n.model(n.at("Relu", n.at("Squeeze", n.at("MaxPool", "x", kernel_shape=[33], strides=[48]), [2])))


@case([{"N": 1, "A": a} for a in (3, 5, 8, 12)], [{"N": 2, "A": 3}])
def squeeze_of_a_symbol():
    n = Net(x=["N", "A", 4])
    return n.model(n.at("Relu", n.at("Squeeze", "x", [0])))


def resized_like(mode, coordinates, other=None, **attributes):
    n = Net(**IMAGE) if other is None else Net(**IMAGE, z=["N", 2, "P", "Q"])
    small = n.conv("x", 3, 4, strides=[2, 2], pads=[1] * 4)
    like = "x" if other is None else "z"
    sizes = n.at("Concat", n.size(small, 0), n.size(small, 1), n.size(like, 2), n.size(like, 3), axis=0)
    rounding = {"nearest_mode": "floor"} if mode == "nearest" else {}
    y = n.at("Resize", small, "", "", sizes, mode=mode, coordinate_transformation_mode=coordinates, **rounding, **attributes)
    return n.model(n.at("Relu", y))


FAR = [dict(s, P=p, Q=q) for s, p, q in zip(ODD, (20, 75, 31, 9), (50, 18, 24, 90))]
for mode, coordinates in [("nearest", "asymmetric"), ("nearest", "half_pixel"), ("linear", "half_pixel"), ("linear", "align_corners"),
                          ("linear", "pytorch_half_pixel"), ("linear", "asymmetric")]:
    CASES[f"resized_like_input_{mode}_{coordinates}"] = (lambda m=mode, c=coordinates: resized_like(m, c), ODD, ())
    CASES[f"resized_like_other_{mode}_{coordinates}"] = (lambda m=mode, c=coordinates: resized_like(m, c, True), FAR, ())

for name, coordinates, attributes in [("cubic", "half_pixel", {}), ("cubic", "align_corners", {}), ("cubic", "asymmetric", {"cubic_coeff_a": -0.5}),
                                      ("cubic", "half_pixel", {"exclude_outside": 1}), ("linear", "half_pixel", {"antialias": 1}),
                                      ("cubic", "half_pixel", {"antialias": 1, "extrapolation_value": 1.0})]:
    CASES["_".join(["resized_like_other", name, coordinates, *attributes])] = (
        lambda m=name, c=coordinates, a=attributes: resized_like(m, c, True, **a), FAR, ())


@case(ODD)
def resized_to_fixed():
    n = Net(**IMAGE)
    sizes = n.at("Concat", n.at("Shape", "x", start=0, end=2), [24, 20], axis=0)
    return n.model(n.at("Relu", n.at("Resize", "x", "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")))


@case(ODD)
def resized_by_a_fraction():
    n = Net(**IMAGE)
    y = n.at("Resize", "x", "", np.array([1, 1, 1.5, 0.75], np.float32), mode="linear", coordinate_transformation_mode="half_pixel")
    return n.model(n.at("Relu", y))


@case(ODD)
def resized_to_the_floor_of_a_product():
    """As torch writes interpolate(scale_factor=1.5)."""
    n = Net(**IMAGE)
    wide = n.at("Cast", n.at("Shape", "x", start=2), to=FLOAT)
    sizes = n.at("Cast", n.at("Floor", n.at("Mul", wide, np.float32(1.5) * np.ones(1, np.float32))), to=TensorProto.INT64)
    sizes = n.at("Concat", n.at("Shape", "x", start=0, end=2), sizes, axis=0)
    return n.model(n.at("Relu", n.at("Resize", "x", "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")))


@case([{"N": 1, "H": h, "W": 4} for h in (1, 2, 3, 9, 20)], [])
def slice_to_half_less_one():
    n = Net(**IMAGE)
    end = n.at("Sub", n.at("Div", n.size("x", 2), [2]), [1])
    return n.model(n.at("Relu", n.at("Slice", "x", [0], end, [2])))


@case([{"N": 1, "H": h, "W": 4} for h in (19, 20, 21, 300)], [])
def head_in_reverse():
    """As a sound is continued before its start by its own mirror image."""
    n = Net(**IMAGE)
    return n.model(n.at("Concat", n.at("Slice", "x", [19], [-(2**63)], [2], [-1]), "x", axis=2))


@case([{"N": 1, "H": h, "W": 4} for h in (6, 7, 8, 300)], [])
def numbers_inside():
    n = Net(**IMAGE)
    maps = n.conv("x", 3, 4, strides=[2, 1], pads=[1] * 4)
    return n.model(n.at("Relu", n.at("Slice", maps, [1], [4], [2])))


@case([{"N": 1, "H": h, "W": 4} for h in (1, 128, 512, 513)], [])
def cut_to_the_longest():
    n = Net(**IMAGE)
    return n.model(n.at("Relu", n.at("Slice", "x", [0], [512], [2])))


@case([{"N": 1, "L": n} for n in (2, 3, 9)], [{"N": 2, "L": 4}, {"N": 1, "L": 1}])
def squeeze_of_a_batch():
    """As a program for one item at a time leaves its batch out."""
    n = Net(x=["N", "L"])
    return n.model(n.at("Relu", n.at("Squeeze", "x")))


@case([{"N": n, "H": 5, "W": 4} for n in (1, 2, 3)], [])
def cut_to_two_of_a_batch():
    n = Net(**IMAGE)
    return n.model(n.at("Relu", n.at("Slice", "x", [0], [2], [0])))


@case([{"N": 1, "H": h, "W": 4} for h in (15, 16, 128, 513)], [])
def cut_to_a_few():
    n = Net(**IMAGE)
    return n.model(n.at("Relu", n.at("Slice", "x", [0], [16], [2])))


@case([{"N": n, "H": 8 * h, "W": 8 * w} for n, h, w in [(1, 2, 3), (2, 5, 1), (3, 4, 4), (1, 1, 1)]], [{"N": 1, "H": 12, "W": 16}])
def window_partition():
    n = Net(**IMAGE)
    h, w = (n.at("Div", n.size("x", axis), [8]) for axis in (2, 3))
    shape = n.at("Concat", n.size("x", 0), [3], h, [8], w, [8], axis=0)
    windows = n.at("Transpose", n.at("Reshape", "x", shape), perm=[0, 2, 4, 3, 5, 1])
    flat = n.at("Reshape", windows, [-1, 64, 3])
    back = n.at("Reshape", n.at("Softmax", flat, axis=1), n.at("Concat", n.size("x", 0), h, w, [8], [8], [3], axis=0))
    moved = n.at("Transpose", back, perm=[0, 5, 1, 3, 2, 4])
    return n.model(n.at("Add", "x", n.at("Reshape", moved, n.at("Shape", "x"))))


def same_windows(mode, kernel, strides, **attributes):
    """Conv, maximum and means with auto_pad, whose padding depends on what is left of the size by the stride."""
    n = Net(**IMAGE)
    same = {"auto_pad": mode, "strides": strides}
    y = n.conv("x", 3, 4, kernel, **same, **attributes)
    pooled = [n.at(op, "x", kernel_shape=[kernel] * 2, **same, **more)
              for op, more in (("MaxPool", {}), ("AveragePool", {}), ("AveragePool", {"count_include_pad": 1}), ("LpPool", {"p": 1}))]
    # All of them agree in the size of their results: they can be joined, and a shortcut added.
    return n.model(n.at("Concat", y, *pooled, axis=1), n.at("Add", y, n.conv("x", 3, 4, 1, **same)))


for mode in ("SAME_UPPER", "SAME_LOWER"):
    for kernel, strides in ((3, [2, 2]), (4, [2, 3]), (2, [2, 1])):
        CASES[f"{mode.lower()}_{kernel}_{strides[0]}_{strides[1]}"] = (
            lambda m=mode, k=kernel, s=strides: same_windows(m, k, s), ODD + EVEN, ())


@case([{"N": 1, "H": h, "W": 6} for h in (3, 6, 9)], [{"N": 1, "H": 4, "W": 6}])
def same_windows_narrower_than_their_strides():
    n = Net(**IMAGE)
    return n.model(n.conv("x", 3, 4, 2, auto_pad="SAME_UPPER", strides=[3, 3]))


@case([{"N": n, "A": a} for n, a in [(1, 7), (2, 10), (3, 8), (1, 13)]], [{"N": 1, "A": 1}])
def uneven_split():
    n = Net(x=["N", "A", 4])
    return n.model(*[n.at("Relu", part) for part in n.at("Split", "x", outputs=3, axis=1, num_outputs=3)])


@case([{"x.0": n, "x.1": a, "x.2": b, "x.3": c} for n, a, b, c in [(1, 3, 5, 7), (2, 4, 4, 6), (3, 9, 2, 1), (1, 8, 8, 8)]])
def sizes_without_names():
    """-1, "?" and no name at all are sizes that have nothing to do with each other."""
    n = Net(x=[-1, "?", "", None])
    return n.model(n.at("Softmax", "x", axis=-1))


@case([{"N": n, "H": h, "W": w} for n, h, w in [(1, 5, 7), (2, 9, 4), (3, 6, 6), (1, 12, 8)]])
def norm_by_groups():
    """What exporters make of a norm by groups behind a convolution without pads: the rest of a reshape is a product of differences."""
    n = Net(**IMAGE)
    y = n.conv("x", 3, 8)
    flat = n.at("Reshape", y, [0, 2, -1])
    ones = np.ones(2, np.float32)
    norm = n.at("InstanceNormalization", flat, ones, 0 * ones)
    return n.model(n.at("Reshape", norm, n.at("Shape", y)))


@case([{"N": n, "H": h, "W": w} for n, h, w in [(1, 5, 7), (2, 9, 4), (3, 6, 6), (1, 12, 8)]])
def padded_to_fours():
    """-size mod 4 zeros behind each map, as Python's % has it."""
    n = Net(**IMAGE)
    h, w = (n.at("Mod", n.at("Neg", n.size("x", axis)), [4]) for axis in (2, 3))
    y = n.at("Pad", "x", n.at("Concat", [0, 0, 0, 0, 0, 0], h, w, axis=0))
    return n.model(n.at("MaxPool", y, kernel_shape=[4, 4], strides=[4, 4]))


@case([{"N": n, "M": n, "A": a} for n, a in [(1, 4), (2, 7), (3, 3), (5, 1)]], [{"N": 2, "M": 3, "A": 4}])
def equal_products():
    """Sizes that are factors of both counts of a reshape say nothing about the others."""
    n = Net(x=["N", "A", 4], z=["M", 4])
    shape = n.at("Concat", n.size("z", 0), n.size("x", 1), [4], axis=0)
    return n.model(n.at("Relu", n.at("Reshape", "x", shape)))


@case([{"x.0": n, "x.1": 3, "x.2": h, "x.3": w} for n, h, w in [(1, 5, 7), (2, 9, 4), (3, 6, 6), (1, 12, 8)]])
def shape_left_out():
    """The nodes that read the input tell how many dims it has."""
    n = Net(x=None)
    return n.model(n.conv(n.at("Tanh", "x"), 3, 4, pads=[1] * 4))


class FreeSizes(ToolTest):
    def inputs_of(self, model, sizes):
        seeded = np.random.default_rng(3)
        def size_of(port, index, dim):
            return sizes.get(dim.dim_param) or sizes.get(f"{port.name}.{index}") or dim.dim_value

        return {port.name: seeded.standard_normal([size_of(port, i, d) for i, d in enumerate(port.type.tensor_type.shape.dim)] or list(sizes.values()))
                .astype(np.float32) for port in model.graph.input}

    def run_at(self, model, sizes):
        given, got = self.folder / "in.npz", self.folder / "out.npz"
        tensors = self.inputs_of(model, sizes)
        np.savez(given, **tensors)
        return tensors, got, self.call("run", self.folder / "m.tenon", "--inputs", given, "-o", got)

    def check(self, name):
        build, good, bad = CASES[name]
        model = build()
        onnx.save(model, str(self.folder / "m.onnx"))
        self.succeed("compile", self.folder / "m.onnx", "-o", self.folder / "m.tenon", "--target", "cpu:avx2")
        peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for sizes in good:
            tensors, got, done = self.run_at(model, sizes)
            self.assertEqual(0, done.returncode, f"{sizes}: {done.stderr}")
            have = np.load(got)
            for port, want in zip(model.graph.output, peer.run(None, tensors)):
                self.assertEqual(want.shape, have[port.name].shape, sizes)
                np.testing.assert_allclose(have[port.name], want, rtol=1e-4, atol=1e-4, err_msg=str(sizes))
        for sizes in bad:
            done = self.run_at(model, sizes)[2]
            self.assertEqual(2, done.returncode, f"{sizes}: {done.stderr}")
            self.assertRegex(done.stderr, r"TN0612: node '\w+_\d+' needs that ")

    def test_no_items(self):
        """A batch of no items has outputs of no items, whatever is computed for others."""
        n = Net(x=["N", 3, "H", "W"])
        maps = n.at("Relu", n.conv("x", 3, 8, pads=[1] * 4))
        rows = n.at("Flatten", n.at("GlobalAveragePool", maps))
        model = n.model(maps, n.at("Softmax", rows, axis=-1), n.at("Concat", rows, rows, axis=0))
        onnx.save(model, str(self.folder / "m.onnx"))
        self.succeed("compile", self.folder / "m.onnx", "-o", self.folder / "m.tenon", "--target", "cpu:avx2,cuda:sm_90")
        peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        tensors, got, done = self.run_at(model, {"N": 0, "H": 5, "W": 6})
        self.assertEqual(0, done.returncode, done.stderr)
        have = np.load(got)
        for port, want in zip(model.graph.output, peer.run(None, tensors)):
            self.assertEqual(want.shape, have[port.name].shape)
        self.succeed("run", self.folder / "m.tenon", "--batch", "1")

    def test_a_result_of_no_items_is_refused(self):
        """Unless the model is compiled for none: then it is what a sum of nothing is."""
        n = Net(x=["N", 4])
        model = n.model(n.at("ReduceSum", "x", [0], keepdims=0))
        onnx.save(model, str(self.folder / "m.onnx"))
        self.succeed("compile", self.folder / "m.onnx", "-o", self.folder / "m.tenon", "--target", "cpu:avx2")
        done = self.run_at(model, {"N": 0})[2]
        self.assertEqual(2, done.returncode)
        self.assertIn("accepts 1 to 65536", done.stderr)
        self.succeed("compile", self.folder / "m.onnx", "-o", self.folder / "m.tenon", "--target", "cpu:avx2", "--shape", "x:[0..8]x4")
        got, done = self.run_at(model, {"N": 0})[1:]
        self.assertEqual(0, done.returncode, done.stderr)
        np.testing.assert_array_equal(np.load(got)[model.graph.output[0].name], np.zeros(4, np.float32))

    def test_unknown_rank(self):
        n = Net(picture=None)
        onnx.save(n.model(n.at("Softmax", "picture", axis=-1)), str(self.folder / "m.onnx"))
        done = self.refuse(3, "TN0301", "compile", self.folder / "m.onnx", "-o", self.folder / "m.tenon")
        self.assertIn("--shape 'picture:1x[1..512]'", done.stderr)
        self.succeed("compile", self.folder / "m.onnx", "-o", self.folder / "m.tenon", "--target", "cpu:avx2", "--shape", "picture:[1..4]x[1..512]")


for each in CASES:
    setattr(FreeSizes, "test_" + each, lambda self, name=each: self.check(name))

if __name__ == "__main__":
    unittest.main()
