"""The choice of kernels as users see it: what is recorded, how it is explained, how another one is asked for, and that a choice
that does not fit is refused. GPU engines are compiled here and not run.
"""

import json
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tool import CNN, ToolTest

GPU = ["--target", "cuda:sm_90a", "--precision", "fp16"]


def product():
    """x [64, 512] by a constant matrix, then ReLU: of the kind that several families compute."""
    weight = numpy_helper.from_array(np.full((512, 768), 0.01, np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="mm=1"), helper.make_node("Relu", ["p"], ["y"], name="act")]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", [64, 512]), ("y", [64, 768]))]
    return helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight]),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Kernels(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(product(), cls.folder / "product.onnx")

    def kernel_of(self, node, *options):
        """The region's record after a compilation with these options."""
        self.succeed("compile", "product.onnx", "-o", "p.tenon", *GPU, *options)
        record = json.loads(self.succeed("explain", "kernels", "p.tenon", node, "--json").stdout)
        (region,) = record.get("data", record)["regions"]
        verdicts = {one["kernel"].split("{")[0]: one["verdict"] for one in region["candidates"]}
        return region["kernel"], verdicts

    def test_recorded_and_explained(self):
        kernel, verdicts = self.kernel_of("mm=1")
        self.assertRegex(kernel, r"^gemm_skinny\{.*stages=\d+,tile=64x\d+\}$")
        self.assertEqual("chosen", verdicts["gemm_skinny"])
        self.assertEqual("possible", verdicts["gemm_tensorcore"])
        self.assertEqual("refused", verdicts["gemv"])
        text = self.succeed("explain", "kernels", "p.tenon").stdout
        self.assertRegex(text, r"(?m)^ +1  gemm_skinny$")
        text = self.succeed("explain", "kernels", "p.tenon", "mm=1").stdout
        self.assertRegex(text, r"refused  gemv: .*1 to 16 rows")

    def test_another_one(self):
        kernel, verdicts = self.kernel_of("mm=1", "--kernel", "mm=1=gemm_tensorcore{tile=64x64x64,warp=32x32,stages=4}")
        self.assertRegex(kernel, r"^gemm_tensorcore\{.*tile=64x64x64,")
        self.assertEqual("possible", verdicts["gemm_skinny"])
        self.assertEqual("chosen", verdicts["gemm_tensorcore"])
        kernel, verdicts = self.kernel_of("mm=1", "--disable-family", "gemm_skinny")
        self.assertEqual("cublaslt", kernel)
        self.assertEqual("disabled", verdicts["gemm_skinny"])
        # The cache tells engines apart that differ by their kernels alone.
        self.assertRegex(self.kernel_of("mm=1")[0], "^gemm_skinny")

    def test_what_does_not_fit(self):
        for options, said in ((["--kernel", "mm=1=gemm_skiny"], "did you mean 'gemm_skinny'"),
                              (["--kernel", "mm=1=gemm_skinny{stages=99}"], "not a configuration"),
                              (["--kernel", "mm=1=gemm_skinny{stages=x}"], "form"),
                              (["--kernel", "mm=1=gemv"], "gemv refused"),
                              (["--kernel", "nothere=gemv"], "no region has the node 'nothere'"),
                              (["--kernel", "gemv"], "names no node"),
                              (["--disable-family", "pointwse"], "did you mean 'pointwise'")):
            with self.subTest(options=options):
                done = self.call("compile", "product.onnx", "-o", "q.tenon", *GPU, *options)
                self.assertEqual(2, done.returncode, done.stderr)
                self.assertIn("TN0105", done.stderr)
                self.assertIn(said, done.stderr)
                self.assertFalse((self.folder / "q.tenon").exists())

    def test_on_cpus(self):
        self.succeed("compile", CNN, "-o", "c.tenon", "--target", "cpu:avx2")
        self.assertRegex(self.succeed("explain", "kernels", "c.tenon").stdout, r"\d+  gemm_packed")
        done = self.call("compile", CNN, "-o", "d.tenon", "--target", "cpu:avx2", "--disable-family", "gemm_packed")
        self.assertIn("the only family that computes it is disabled", done.stderr)


if __name__ == "__main__":
    unittest.main()
