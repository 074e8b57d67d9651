"""`tenon explain precision`: in which numbers each product computes, why one beside quantized numbers is one of floats, what the form that
was taken and the wide one are predicted to take, and which regions only convert.
"""

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

    def test_programs_of_pt2e(self):
        self.succeed("compile", SOURCE / "test/data/pt2/quantized.pt2", "-o", "p.tenon", "--target", "cpu:avx2")
        record = self.json("explain", "precision", "p.tenon")
        self.assertEqual(["u8 x s8, sums of i32"] * 2, [product["computes"] for product in record["products"]])
        self.assertIn(["quantize_per_tensor_2"], [row["nodes"] for row in record["conversions"]])

    def test_text(self):
        text = self.succeed("explain", "precision", "m.tenon", "--all").stdout
        for part in ("u8 x s8, sums of i32", "3 of floats though an operand is quantized", "the other operand is not quantized", "in fp32", "quantization and casts"):
            self.assertIn(part, text)
        one = self.succeed("explain", "precision", "m.tenon", "in_two_ways").stdout
        self.assertIn("the other operand is not quantized", one)
        self.assertNotIn("weights are not quantized", one)
        self.assertIn("TN0105", self.call("explain", "precision", "m.tenon", "nothing").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
