"""`tenon explain precision`: in which numbers each product computes, why one beside quantized numbers is one of floats, what the form that
was taken and the wide one are predicted to take, and which regions only convert.
"""

import re
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tool import SOURCE, ToolTest

# what each product of the model computes in, and what says why it is none of integers
PRODUCTS = {
    "integers": ("u8 x s8, sums of i32", ""),
    "float_weights": ("f32", "its weights are not quantized"),
    "along_depth": ("f32", "differs along the depth"),
    "computed": ("u8 x s8, sums of i32", ""),
    "weights_alone": ("f32 x weights of 4 bits in blocks of 32", ""),
    "in_two_ways": ("f32", "the other operand is not quantized"),
    "floats": ("f32", ""),
}


def model():
    random = np.random.default_rng(0)
    constants = {"s": np.float32(0.02), "z": np.uint8(128), "w": random.integers(-127, 127, (64, 64)).astype(np.int8), "ws": np.float32(0.01),
                 "wz": np.int8(0), "wf": random.standard_normal((64, 64)).astype(np.float32),
                 "sk": random.uniform(0.01, 0.02, 64).astype(np.float32), "zk": np.zeros(64, np.int8),
                 "nw": random.integers(0, 256, (8192, 2, 16)).astype(np.uint8), "ns": np.full(16384, 0.01, np.float32), "first": np.int64([0])}

    def node(operator, name, operands, output, **attributes):
        return helper.make_node(operator, operands.split(), [output], name=name, **attributes)

    nodes = [node("QuantizeLinear", "quantize", "x s z", "q"), node("DequantizeLinear", "dequantize", "q s z", "a"),
             node("DequantizeLinear", "weights", "w ws wz", "wd"), node("DequantizeLinear", "weights_k", "w sk zk", "wk", axis=0),
             node("MatMul", "integers", "a wd", "y0"), node("MatMul", "float_weights", "a wf", "y1"), node("MatMul", "along_depth", "a wk", "y2"),
             node("Transpose", "turn", "a", "at", perm=[1, 0]), node("MatMul", "computed", "a at", "y3"), node("Sigmoid", "sigmoid", "x", "p"),
             node("ReduceMean", "mean", "p first", "row"),
             node("MatMulNBits", "weights_alone", "row nw ns", "y4", domain="com.microsoft", K=64, N=8192, bits=4, block_size=32),
             node("MatMul", "in_two_ways", "p at", "y5"), node("MatMul", "floats", "p wf", "y6")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 64])],
                              [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(7)],
                              [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)


class ExplainPrecision(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(model(), cls.folder / "m.onnx")
        cls.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:avx2")
        cls.record = cls.json("explain", "precision", "m.tenon")

    def test_each_product(self):
        found = {product["nodes"][0]: product for product in self.record["products"]}
        self.assertEqual(set(PRODUCTS), set(found))
        for name, (computes, why) in PRODUCTS.items():
            with self.subTest(product=name):
                self.assertEqual(computes, found[name]["computes"])
                self.assertIn(why, found[name]["why_wide"])
                self.assertEqual(not why, not found[name]["why_wide"])
                self.assertEqual("x" in computes.split(), found[name]["wide_us"] > 0)
        alone = found["weights_alone"]
        self.assertLess(2 * alone["us"], alone["wide_us"])

    def test_on_gpus(self):
        """Kernels there take no two computed operands, and weights of 4 bits beside 16-bit floats only."""
        self.succeed("compile", "m.onnx", "-o", "g.tenon", "--target", "cuda:sm_90a")
        record = self.json("explain", "precision", "g.tenon")
        found = {product["nodes"][0]: product for product in record["products"]}
        there = PRODUCTS | {"computed": ("f32", "both operands are computed"), "weights_alone": ("f32", "the other operand of its quantized weights")}
        self.assertEqual(set(there), set(found))
        for name, (computes, why) in there.items():
            with self.subTest(product=name):
                self.assertEqual(computes, found[name]["computes"])
                self.assertIn(why, found[name]["why_wide"])
                self.assertEqual(not why, not found[name]["why_wide"])
        self.assertGreater(found["integers"]["wide_us"], 0)
        self.assertEqual(["quantize", "dequantize"], [name for row in record["conversions"] for name in row["nodes"]])

    def test_conversions(self):
        self.assertEqual([["quantize", "dequantize"]], [row["nodes"] for row in self.record["conversions"]])
        self.assertAlmostEqual(self.record["conversions_us"], sum(row["us"] for row in self.record["conversions"]))
        self.assertGreater(self.record["conversions_us"], 0)

    def test_what_fp8_became(self):
        """A product that is faster in fp16 stays one, and compiling says so with both times; a large one does not."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4096, 2048])
        weights = {"up": np.zeros((2048, 4096), np.float32), "down": np.zeros((256, 256), np.float32)}
        small = helper.make_tensor_value_info("s", TensorProto.FLOAT, [64, 256])
        nodes = [helper.make_node("Sigmoid", ["x"], ["xs"]), helper.make_node("Sigmoid", ["s"], ["ss"]),
                 helper.make_node("MatMul", ["xs", "up.w"], ["y"], name="up"), helper.make_node("MatMul", ["ss", "down.w"], ["z"], name="down")]
        graph = helper.make_graph(nodes, "g", [x, small], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4096, 4096]),
                                                         helper.make_tensor_value_info("z", TensorProto.FLOAT, [64, 256])],
                                  [numpy_helper.from_array(weights[name], f"{name}.w") for name in weights])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), self.folder / "f8.onnx")
        arguments = ("compile", "f8.onnx", "-o", "f8.tenon", "--target", "cuda:h200", "--precision", "fp8", "--no-cache")
        said = self.succeed(*arguments).stderr
        self.assertRegex(said, r"--precision fp8: 1 of 2 matmuls multiply 8-bit floats; 1 stay in fp16, where they are predicted to take [\d.]+ us, "
                               r"not [\d.]+ us; tenon explain precision f8.tenon says why")
        made = self.json(*arguments, "--force")["float8"]
        self.assertEqual((1, 1, 1), (made["products"], made["others"], made["faster_in_fp16"]))
        self.assertLess(made["fp16_us"], made["float8_us"])
        record = self.json("explain", "precision", "f8.tenon")
        self.assertEqual([["down"]], [row["nodes"] for row in record["not_float8"]])
        self.assertEqual({"products": 1, "fp16_us": made["fp16_us"], "float8_us": made["float8_us"]}, record["float8_time"])

    def test_programs_of_pt2e(self):
        self.succeed("compile", SOURCE / "test/data/pt2/quantized.pt2", "-o", "p.tenon", "--target", "cpu:avx2")
        record = self.json("explain", "precision", "p.tenon")
        self.assertEqual(["u8 x s8, sums of i32"] * 2, [product["computes"] for product in record["products"]])
        self.assertIn(["quantize_per_tensor_2"], [row["nodes"] for row in record["conversions"]])

    def test_text(self):
        text = self.succeed("explain", "precision", "m.tenon", "--all").stdout
        for part in ("u8 x s8, sums of i32", "3 wider than an operand could be", "the other operand is not quantized", "in fp32", "quantization and casts"):
            self.assertIn(part, text)
        one = self.succeed("explain", "precision", "m.tenon", "in_two_ways").stdout
        self.assertIn("the other operand is not quantized", one)
        self.assertNotIn("weights are not quantized", one)
        self.assertIn("TN0105", self.call("explain", "precision", "m.tenon", "nothing").stderr)


# convolutions of 3 x 3 by channels and size of the picture: the first is faster in FP32 by Winograd's filtering than in 8 bits without VNNI,
# the second has too few tiles for it
PRICED = {"many_tiles": (64, 32), "few_tiles": (512, 4)}


def priced_model(batch=1):
    random = np.random.default_rng(1)
    nodes, inputs, constants = [], [], [numpy_helper.from_array(np.float32(0.02), "s"), numpy_helper.from_array(np.uint8(128), "z"),
                                        numpy_helper.from_array(np.float32(0.001), "t"), numpy_helper.from_array(np.int8(0), "o")]
    for name, (channels, size) in PRICED.items():
        inputs.append(helper.make_tensor_value_info("x_" + name, TensorProto.FLOAT, [batch, channels, size, size]))
        constants.append(numpy_helper.from_array(random.integers(-127, 128, (channels, channels, 3, 3)).astype(np.int8), "w_" + name))
        nodes += [helper.make_node("QuantizeLinear", ["x_" + name, "s", "z"], ["q_" + name]),
                  helper.make_node("DequantizeLinear", ["q_" + name, "s", "z"], ["a_" + name]),
                  helper.make_node("DequantizeLinear", ["w_" + name, "t", "o"], ["d_" + name]),
                  helper.make_node("Conv", ["a_" + name, "d_" + name], ["y_" + name], name=name, pads=[1, 1, 1, 1])]
    outputs = [helper.make_tensor_value_info("y_" + name, TensorProto.FLOAT, None) for name in PRICED]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class WideWhereFaster(ToolTest):
    """Each product is one of integers or of FP32 by what either takes on the level that will run it, with what converting takes."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(priced_model(), cls.folder / "m.onnx")
        random = np.random.default_rng(2)
        cls.inputs = {"x_" + name: random.standard_normal((1, c, s, s)).astype(np.float32) for name, (c, s) in PRICED.items()}
        np.savez(cls.folder / "in.npz", **cls.inputs)

    def products(self, engine, level):
        return {product["nodes"][0]: product for product in self.json("explain", "precision", engine, "--variant", level)["products"]}

    def test_by_level(self):
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:avx2,avx512,avx512-vnni,amx")
        for level, has_wide in (("x86-64-v3", True), ("avx512", True), ("avx512-vnni", False), ("amx", False)):
            found = self.products("m.tenon", level)
            for name in PRICED:
                with self.subTest(level=level, product=name):
                    is_wide = has_wide and name == "many_tiles"
                    self.assertEqual("f32" if is_wide else "u8 x s8, sums of i32", found[name]["computes"])
                    self.assertEqual(is_wide, "us in 8-bit integers" in found[name]["why_wide"])
                    self.assertEqual(not is_wide, found[name]["wide_us"] > 0)

    def test_levels_that_the_model_gains_by_are_added(self):
        self.succeed("compile", "m.onnx", "-o", "all.tenon", "--target", "cpu")
        self.assertEqual("f32", self.products("all.tenon", "x86-64-v3")["many_tiles"]["computes"])
        for level in ("avx-vnni", "avx512-vnni", "avx512-vnni-bf16", "amx"):
            self.assertEqual("u8 x s8, sums of i32", self.products("all.tenon", level)["many_tiles"]["computes"])

    def test_both_are_right(self):
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:native")
        self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
        found = np.load(self.folder / "out.npz")
        constants = {c.name: numpy_helper.to_array(c) for c in priced_model().graph.initializer}
        for name, (channels, size) in PRICED.items():
            numbers = np.clip(np.rint(self.inputs["x_" + name] / np.float32(0.02)) + 128, 0, 255) - 128
            padded = np.pad(numbers[0], ((0, 0), (1, 1), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
            wanted = np.einsum("chwij,ocij->ohw", windows, constants["w_" + name].astype(np.float64)) * 0.02 * 0.001
            np.testing.assert_allclose(found["y_" + name][0], wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())

    def test_bf16(self):
        self.succeed("compile", "m.onnx", "-o", "b.tenon", "--target", "cpu:avx2,amx", "--precision", "bf16")
        # what is quantized stays so
        self.assertEqual("u8 x s8, sums of i32", self.products("b.tenon", "x86-64-v3")["few_tiles"]["computes"])
        self.assertEqual("u8 x s8, sums of i32", self.products("b.tenon", "amx")["many_tiles"]["computes"])

    def test_depthwise_convolutions_of_bf16(self):
        """They are priced with their own channels: words of bf16 are filled in convolutions of one group alone."""
        cases = {"plain": (32, 32, 3), "large": (48, 48, 5), "twice": (16, 32, 3)}
        nodes, weights = [], []
        for name, (inputs, outputs, kernel) in cases.items():
            random = np.random.default_rng(len(nodes))
            weights.append(numpy_helper.from_array(random.standard_normal((outputs, 1, kernel, kernel)).astype(np.float32), "w_" + name))
            nodes.append(helper.make_node("Conv", ["x_" + name, "w_" + name], ["y_" + name], name=name, group=inputs,
                                          pads=[kernel // 2] * 4))
        graph = helper.make_graph(nodes, "g",
                                  [helper.make_tensor_value_info("x_" + n, TensorProto.FLOAT, (1, c[0], 28, 28)) for n, c in cases.items()],
                                  [helper.make_tensor_value_info("y_" + n, TensorProto.FLOAT, (1, c[1], 28, 28)) for n, c in cases.items()],
                                  weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), self.folder / "d.onnx")
        self.succeed("compile", "d.onnx", "-o", "d.tenon", "--target", "cpu:amx", "--precision", "bf16")
        found = self.products("d.tenon", "amx")
        for name in cases:
            self.assertEqual("bf16", found[name]["computes"], name)


class OfOneSizeAndLevel(ToolTest):
    """All that is said of a level in an engine for several is what an engine for it alone says, and all times are of the sizes that are shown."""

    LEVELS = ("x86-64-v3", "avx512-vnni", "amx")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(priced_model("batch"), cls.folder / "m.onnx")
        cls.succeed("compile", "m.onnx", "-o", "fat.tenon", "--target", "cpu:" + ",".join(cls.LEVELS))
        for level in cls.LEVELS:
            cls.succeed("compile", "m.onnx", "-o", f"{level}.tenon", "--target", f"cpu:{level}")

    def test_levels(self):
        for topic in ("precision", "kernels", "fusion"):
            for level in self.LEVELS:
                with self.subTest(topic=topic, level=level):
                    in_fat = self.json("explain", topic, "fat.tenon", "--variant", level)
                    in_fat.pop("decided_on", None)
                    for edge in in_fat.get("edges", []):  # for the level that decided, or as of an engine for this one alone
                        edge.pop("decided")
                    alone = self.json("explain", topic, f"{level}.tenon")
                    for edge in alone.get("edges", []):
                        edge.pop("decided")
                    self.assertEqual(alone, in_fat)
        times = [sum(row["us"] for row in self.json("explain", "precision", "fat.tenon", "--variant", level)["products"]) for level in self.LEVELS]
        self.assertEqual(sorted(times, reverse=True), times)
        self.assertIn("estimates for amx of", self.succeed("explain", "precision", "fat.tenon", "--variant", "amx").stdout)
        self.assertIn("level amx\n", self.succeed("explain", "placement", "fat.tenon", "--variant", "amx").stdout)

    def test_approximations_are_those_of_the_level(self):
        named = {level: self.json("explain", "precision", "fat.tenon", "--variant", level)["approximated"] for level in self.LEVELS}
        self.assertEqual([], named["amx"])
        self.assertEqual([["many_tiles"], ["few_tiles"]], [[name for name in row["nodes"] if name in PRICED] for row in named["x86-64-v3"]])
        page = self.succeed("inspect", "fat.tenon", "--variant", "amx", "--json").stdout
        self.assertNotIn("Winograd's filtering in FP32: off by", page)
        self.assertIn("Winograd's filtering in FP32: off by", self.succeed("inspect", "fat.tenon", "--variant", "x86-64-v3", "--json").stdout)

    def test_sizes(self):
        compared = 0
        for batch in (1, 8):
            shapes = [text for name, (c, s) in PRICED.items() for text in ("--shape", f"x_{name}:{batch}x{c}x{s}x{s}")]
            self.succeed("compile", "m.onnx", "-o", "fixed.tenon", "--target", "cpu:x86-64-v3", *shapes)
            fixed = {row["nodes"][0]: row for row in self.json("explain", "precision", "fixed.tenon")["products"]}
            free = self.json("explain", "precision", "x86-64-v3.tenon", *shapes)
            self.assertEqual([{"name": "batch", "size": batch}], free["sizes"])
            for row in free["products"]:
                other = fixed[row["nodes"][0]]
                compared += row["kernel"] == other["kernel"]
                for figure in ("us", "wide_us", "narrow_us") if row["kernel"] == other["kernel"] else ():
                    with self.subTest(batch=batch, product=row["nodes"], figure=figure):
                        self.assertLessEqual(row[figure], 2 * other[figure])
                        self.assertLessEqual(other[figure], 2 * row[figure])
                if row["narrow_us"] > 0:
                    self.assertIn(f"{row['us']:.2f} us, but {row['narrow_us']:.2f} us in 8-bit integers (decided at batch=128)", row["why_wide"])
        self.assertGreater(compared, 1)

    def test_example_of_the_page(self):
        """docs/reference/explain-precision.md shows these engines; times are of a machine."""
        page = (SOURCE / "docs/reference/explain-precision.md").read_text()
        shown = page.split("```\n$ tenon explain precision fat.tenon")[1].split("```")[0].split("$ tenon explain precision fat.tenon")
        for part in shown:
            options, wanted = part.split("\n", 1)
            found = self.succeed("explain", "precision", "fat.tenon", *options.split()).stdout

            def masked(text):
                return re.sub(r"'[^']*'|\d+\.\d+ [mu]s| +", " ", text).split()

            self.assertEqual(masked(wanted), masked(found))


def residual_net(channels=32, size=16):
    """A first convolution of floats, a residual block and a matmul of 8-bit numbers, all as quantizers write them; the last matmul has too few rows."""
    random = np.random.default_rng(3)
    constants = {"s": np.float32(0.02), "z": np.uint8(0), "o": np.int8(0), "t": np.full(channels, 0.001, np.float32), "ot": np.zeros(channels, np.int8),
                 "first.w": 0.2 * random.standard_normal((channels, 3, 3, 3)).astype(np.float32)}
    nodes = []

    def node(operator, operands, output, **attributes):
        nodes.append(helper.make_node(operator, operands, [output], name=output, **attributes))
        return output

    def rounded(x):
        return node("DequantizeLinear", [node("QuantizeLinear", [x, "s", "z"], f"{x}.q"), "s", "z"], f"{x}.dq")

    def weights(name, shape, axis):
        constants[f"{name}.w"] = random.integers(-127, 127, shape).astype(np.int8)
        return node("DequantizeLinear", [f"{name}.w", "t", "ot"], f"{name}.wdq", axis=axis)

    def conv(x, name, taps, **attributes):
        w = weights(name, (channels, channels // attributes.get("group", 1), taps, taps), 0)
        constants[f"{name}.b"] = random.standard_normal(channels).astype(np.float32)
        return node("Conv", [x, w, f"{name}.b"], name, pads=[taps // 2] * 4, **attributes)

    x = rounded(node("MaxPool", [rounded(node("Relu", [node("Conv", ["x", "first.w"], "first", pads=[1] * 4)], "first.r"))], "pool", kernel_shape=[2, 2], strides=[2, 2]))
    y = rounded(node("Relu", [conv(x, "reduce", 1)], "reduce.r"))
    y = rounded(node("Relu", [conv(y, "depthwise", 3, group=channels)], "depthwise.r"))
    y = rounded(node("Relu", [conv(y, "middle", 3)], "middle.r"))
    y = rounded(node("Relu", [node("Add", [conv(y, "expand", 1), rounded(conv(x, "shortcut", 1))], "sum")], "sum.r"))
    rows = node("Reshape", [node("Transpose", [y], "turned", perm=[0, 2, 3, 1]), "rows"], "positions")
    node("MatMul", [rows, weights("many_rows", (channels, channels), 1)], "many_rows")
    pooled = rounded(node("Flatten", [node("GlobalAveragePool", [y], "mean")], "flat"))
    rounded(node("MatMul", [pooled, weights("few_rows", (channels, channels), 1)], "few_rows"))
    constants["rows"] = np.int64([-1, channels])
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, size, size])],
                              [helper.make_tensor_value_info(y, TensorProto.FLOAT, None) for y in ("many_rows", "few_rows.dq")],
                              [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class QuantizedNetsOnGpus(ToolTest):
    """Tensor cores multiply the bytes of a quantized net, whatever its floats become, and activations between its layers are bytes."""

    INTEGERS = ("reduce", "depthwise", "middle", "expand", "shortcut", "many_rows")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(residual_net(), cls.folder / "m.onnx")

    def check(self, target, precision):
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--force", "--target", target, "--precision", precision)
        found = {name: product for product in self.json("explain", "precision", "m.tenon")["products"] for name in product["nodes"]}
        computes = {name: found[name]["computes"].split(" x weights")[0] for name in (*self.INTEGERS, "first", "few_rows")}
        floats = {"keep": "f32", "fp16": "f16", "bf16": "bf16"}[precision]
        self.assertEqual({name: "u8 x s8, sums of i32" for name in self.INTEGERS} | {"first": floats, "few_rows": floats}, computes)
        # what is rounded to bytes: behind a product in its kernel, but for the first layer and what follows a mean
        for region in self.json("explain", "fusion", "m.tenon", "--all")["regions"]:
            if "round" in region["operations"] and not {"first.r", "flat", "mean", "flat.q", "few_rows.q"} & set(region["nodes"]):
                self.assertTrue({"conv", "matmul"} & set(region["operations"]), region["nodes"])
                self.assertNotIn("div", region["operations"])

    def test_each_precision(self):
        for precision in ("keep", "fp16", "bf16"):
            with self.subTest(precision=precision):
                self.check("cuda:h200", precision)

    def test_other_gpus(self):
        self.check("cuda:sm_80", "fp16")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
