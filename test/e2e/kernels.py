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
    """x [128, 768] by a constant matrix, then ReLU: of the kind that several families compute."""
    weight = numpy_helper.from_array(np.full((768, 3072), 0.01, np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="mm=1"), helper.make_node("Relu", ["p"], ["y"], name="act")]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", [128, 768]), ("y", [128, 3072]))]
    return helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight]),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def small_transformer():
    """x [batch, length, 32]: products, softmax of scores, a norm and GELU."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal(dims, np.float32) * 0.2, name)
               for name, dims in (("w1", (32, 96)), ("w2", (96, 32)), ("scale", (32,)), ("bias", (32,)))]
    node = helper.make_node
    nodes = [node("MatMul", ["x", "w1"], ["h"], name="mm1"), node("Gelu", ["h"], ["g"], name="gelu"),
             node("MatMul", ["g", "w2"], ["p"], name="mm2"), node("Add", ["p", "x"], ["r"], name="add"),
             node("LayerNormalization", ["r", "scale", "bias"], ["n"], name="norm"),
             node("Transpose", ["n"], ["t"], perm=[0, 2, 1], name="flip"), node("MatMul", ["n", "t"], ["s"], name="scores"),
             node("Softmax", ["s"], ["y"], axis=-1, name="softmax")]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", 32]),
             helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "length", "length"])]
    return helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], weights),
                             opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def convolutions():
    """Of 3 x 3, of images that shrink: Winograd's filtering pays for all, most for the first. The products of the last share a weight
    with a gather, which reads it as it is."""
    rng = np.random.default_rng(0)
    weights, nodes, last = [], [], "x"
    for index, (inputs, outputs) in enumerate([(64, 64), (64, 128), (128, 128)]):
        weights.append(numpy_helper.from_array(rng.standard_normal((outputs, inputs, 3, 3), np.float32) / 30, f"w{index}"))
        nodes += [helper.make_node("Conv", [last, f"w{index}"], [f"c{index}"], name=f"conv{index}", pads=[1] * 4),
                  helper.make_node("MaxPool", [f"c{index}"], [f"p{index}"], kernel_shape=[2, 2], strides=[2, 2])]
        last = f"p{index}"
    weights.append(numpy_helper.from_array(rng.standard_normal((128, 64), np.float32), "table"))
    nodes += [helper.make_node("GlobalAveragePool", [last], ["g"]), helper.make_node("Flatten", ["g"], ["f"]),
              helper.make_node("MatMul", ["f", "table"], ["y"], name="head"), helper.make_node("Gather", ["table", "i"], ["z"], name="rows")]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 56, 56]), helper.make_tensor_value_info("i", TensorProto.INT64, [3])]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64]), helper.make_tensor_value_info("z", TensorProto.FLOAT, [3, 64])]
    return helper.make_model(helper.make_graph(nodes, "g", ports, results, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Weights(ToolTest):
    """The size of an engine: what its weights are, and their bound."""

    own_cache = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = convolutions()
        cls.source = sum(numpy_helper.to_array(weight).nbytes for weight in model.graph.initializer)
        onnx.save(model, cls.folder / "c.onnx")

    def compiled(self, *options):
        report = self.json("compile", "c.onnx", "-o", "c.tenon", "--target", "cpu:avx2", *options)
        return report, {form["form"].split()[0]: form for form in report["weights"]}

    def test_forms(self):
        for again in range(2):
            report, forms = self.compiled()
            self.assertEqual({"as", "in", "transformed"}, set(forms))
            self.assertEqual(3, forms["transformed"]["arrays"])
            self.assertGreater(forms["transformed"]["bytes"], 1.7 * forms["transformed"]["source_bytes"])
            self.assertEqual(report["weights_bytes"], sum(form["bytes"] for form in forms.values()))
            self.assertEqual(self.source, sum(form["source_bytes"] for form in forms.values() if form["form"]) - forms["as"]["source_bytes"]
                             + 128 * 64 * 4)  # fmt: skip
        self.assertEqual(report["weights"], self.json("explain", "memory", "c.tenon")["weights"])
        text = self.succeed("explain", "memory", "c.tenon").stdout
        self.assertRegex(text, r"3 transformed for Winograd's filtering, from 1008.0 KiB")
        self.assertRegex(self.succeed("compile", "c.onnx", "-o", "c.tenon", "--target", "cpu:avx2").stderr, r"weights take 2\.\d times the 1\.0 MiB of the model")

    def test_a_bound(self):
        before, sizes = None, []
        for times in ("", "2.5x", "1.6x", "1x"):
            report, forms = self.compiled(*(["--max-weights", times] if times else []))
            sizes.append(report["weights_bytes"])
            self.assertLessEqual(sizes[-1], self.source * float(times.rstrip("x") or 10) + 256)  # scalars of the compiler's
            self.succeed("run", "c.tenon", "--fill", "i:0..3", "-o", "out.npz")
            values = np.load(self.folder / "out.npz")["y"]
            if before is not None:
                np.testing.assert_allclose(values, before, rtol=1e-4, atol=1e-4)
            before = values
            if times == "1.6x":
                self.assertIn("transformed", forms)
                kernels = self.succeed("explain", "kernels", "c.tenon", "conv2").stdout
                self.assertRegex(kernels, "excluded .*conv_winograd.*: its weights pass --max-weights; ")
        self.assertEqual(sorted(sizes, reverse=True), sizes)
        self.assertEqual(4, len(set(sizes)))

    def test_a_bound_that_cannot_hold(self):
        done = self.refuse(2, "TN0105", "compile", "c.onnx", "-o", "c.tenon", "--max-weights", "1.2x", "--kernel", "conv2=conv_winograd4")
        self.assertRegex(done.stderr, r"bytes or more.*\n  try: allow more: --max-weights \d\.\d\dx")
        times = done.stderr.split("--max-weights ")[-1].split()[0]
        self.compiled("--max-weights", times, "--kernel", "conv2=conv_winograd4")
        for wrong in ("0.5x", "x", "abc", "1e9", "nan"):
            self.assertIn(f"--max-weights {wrong}: give a number from 1 to 1000", self.refuse(2, "TN0105", "compile", "c.onnx", "--max-weights", wrong).stderr)

    def test_recurrent_weights_count_once(self):
        """Their panels take what they take as they are, and nothing reads them so."""
        rng = np.random.default_rng(0)
        weights = [numpy_helper.from_array(rng.standard_normal((1, 256, 64), np.float32) / 8, name) for name in "wr"]
        node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=64)
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", 2, 64]), helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        onnx.save(helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:], weights),
                                    opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "r.onnx")  # fmt: skip
        report = self.json("compile", "r.onnx", "-o", "r.tenon", "--target", "cpu:avx2", "--max-weights", "1x")
        self.assertEqual(["in"], [form["form"].split()[0] for form in report["weights"] if form["bytes"] > 4096])


class Kernels(ToolTest):
    own_cache = True

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
        self.assertRegex(text, r"(?m)^ +1 +[\d.]+ us  gemm_skinny$")
        text = self.succeed("explain", "kernels", "p.tenon", "mm=1").stdout
        self.assertRegex(text, r"refused  gemv: .*1 to 16 rows")

    def test_another_one(self):
        kernel, verdicts = self.kernel_of("mm=1", "--kernel", "mm=1=gemm_tensorcore{tile=64x64x64,warp=32x32,stages=4}")
        self.assertRegex(kernel, r"^gemm_tensorcore\{.*tile=64x64x64,")
        # This one ends with the cast of the result as well, which that one cannot.
        self.assertEqual("refused", verdicts["gemm_skinny"])
        self.assertEqual("chosen", verdicts["gemm_tensorcore"])
        kernel, verdicts = self.kernel_of("mm=1", "--disable-family", "gemm_skinny", "--disable-family", "gemm_tensorcore")
        self.assertEqual("cublaslt", kernel)
        self.assertEqual("disabled", verdicts["gemm_skinny"])
        self.assertEqual("disabled", verdicts["gemm_tensorcore"])
        # The cache tells engines apart that differ by their kernels alone.
        self.assertRegex(self.kernel_of("mm=1")[0], "^gemm_skinny")

    def test_what_does_not_fit(self):
        for options, said in ((["--kernel", "mm=1=gemm_skiny"], "did you mean 'gemm_skinny'"),
                              (["--kernel", "mm=1=gemm_skinny{stages=99}"], "not a configuration"),
                              (["--kernel", "mm=1=gemm_skinny{stages=x}"], "form"),
                              (["--kernel", "mm=1=gemv"], "gemv refused"),
                              (["--kernel", "nothere=gemv"], "no region has the node 'nothere'"),
                              (["--kernel", "gemv"], "does not name a node"),
                              (["--disable-family", "pointwse"], "did you mean 'pointwise'")):
            with self.subTest(options=options):
                done = self.call("compile", "product.onnx", "-o", "q.tenon", *GPU, *options)
                self.assertEqual(2, done.returncode, done.stderr)
                self.assertIn("TN0105", done.stderr)
                self.assertIn(said, done.stderr)
                self.assertFalse((self.folder / "q.tenon").exists())

    def test_on_cpus(self):
        self.succeed("compile", CNN, "-o", "c.tenon", "--target", "cpu:avx2")
        text = self.succeed("explain", "kernels", "c.tenon").stdout
        self.assertRegex(text, r"\d+ +[\d.]+ us  gemm_packed")
        self.assertIn("gemm_packed{tile_rows=128}", text)
        # Another family and another configuration compute the same.
        self.succeed("run", "c.tenon", "-o", "c.npz")
        node = "/classifier/Gemm"
        for options in (["--disable-family", "gemm_packed"], ["--kernel", f"{node}=gemm_packed{{tile_rows=16}}"]):
            self.succeed("compile", CNN, "-o", "d.tenon", "--target", "cpu:avx2", *options)
            self.succeed("run", "d.tenon", "-o", "d.npz")
            with np.load(self.folder / "c.npz") as one, np.load(self.folder / "d.npz") as other:
                for name in one.files:
                    np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-5)
        done = self.call("compile", CNN, "-o", "d.tenon", "--target", "cpu:avx2", "--kernel", f"{node}=gemm_packed{{tile_rows=5}}")
        self.assertIn("is not a configuration", done.stderr)
        done = self.call("compile", CNN, "-o", "d.tenon", "--target", "cpu:avx2", "--disable-family", "gemm_packed", "--disable-family",
                         "tiled")
        self.assertIn("no kernel family takes it", done.stderr)

    def test_measured(self):
        """Every kernel of every region of two small models runs and agrees with the chosen one."""
        onnx.save(small_transformer(), self.folder / "small.onnx")
        for model, shape in (("small.onnx", "x:1x7x32"), (str(CNN), "image:2x1x28x28")):
            regions = self.json("bench", model, "--kernels", "all", "--target", "cpu:avx2", "--shape", shape, "--threads", "2")["regions"]
            self.assertGreater(len(regions), 2)
            for region in regions:
                with self.subTest(model=model, region=region["label"]):
                    self.assertEqual("", region["skipped"])
                    self.assertTrue(region["kernels"][0]["chosen"])
                    self.assertEqual(1, sum(one["chosen"] for one in region["kernels"]))
                    for one in region["kernels"]:
                        self.assertNotIn("problem", one)
                        self.assertGreater(one["time_us"], 0)
                        self.assertGreater(one["predicted_us"], 0)
                        self.assertLess(one["difference"], 1e-5, one)
            self.assertTrue(any(len(region["kernels"]) >= 5 for region in regions), "products have four tiles and the loops")
        (region,) = self.json("bench", "small.onnx", "--kernels", "mm1", "--target", "cpu:avx2", "--shape", "x:1x70x32",
                              "--per-family", "2")["regions"]
        self.assertEqual(4, len(region["kernels"]), "two tiles and the chosen one, and the loops, which have one form")

    def test_fusion_in_a_screen(self):
        """A summary first, whose counts are those of the record; a saving never stands without the rule against it."""
        onnx.save(small_transformer(), self.folder / "small.onnx")
        self.succeed("compile", "small.onnx", "-o", "small.tenon", "--target", "cpu:avx2")
        record = self.json("explain", "fusion", "small.tenon")
        text = self.succeed("explain", "fusion", "small.tenon").stdout
        self.assertIn("sizes: batch=1, length=128; --shape", text)
        self.assertRegex(text, rf"(?m)^ +{len(record['regions'])} +\S+ us  together$")
        self.assertRegex(text, rf"(?m)^ +{len(record['edges'])}  neighbours that stayed apart, by rule$")
        self.assertIn("tenon explain fusion small.tenon scores", text[text.index("\nnext  "):])
        whole = self.succeed("explain", "fusion", "small.tenon", "--all").stdout
        self.assertEqual(len(record["regions"]), whole.count("\nregion "))
        self.assertNotRegex(whole, r"would save [\d.]+ us(?! by the estimate, not taken: [a-z-]+)")
        self.assertNotIn("neighbours that stayed", self.succeed("explain", "fusion", "small.tenon", "mm1").stdout)

    def test_first_screens(self):
        """40 lines at most, however large the model; what is left out is said, and how to see it."""
        nodes, last = [], "x"
        for i in range(60):
            nodes += [helper.make_node("CumSum", [last, "axis"], [f"c{i}"], name=f"sum{i}"),
                      helper.make_node("Softmax", [f"c{i}"], [f"s{i}"], name=f"softmax{i}", axis=-2)]
            last = f"s{i}"
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "tokens", 16]) for name in ("x", last)]
        axis = numpy_helper.from_array(np.array(1), "axis")
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], [axis]),
                                    opset_imports=[helper.make_opsetid("", 20)], ir_version=9), self.folder / "long.onnx")
        self.succeed("compile", "long.onnx", "-o", "long.tenon", "--target", "cpu:avx2")
        for topic in ("fusion", "kernels", "memory", "placement"):
            with self.subTest(topic=topic):
                text = self.succeed("explain", topic, "long.tenon").stdout
                self.assertLessEqual(text.count("\n"), 40)
                self.assertIn(f"\nnext  tenon explain {topic} long.tenon", text)
                self.assertIn("--all", text)
                self.assertGreater(self.succeed("explain", topic, "long.tenon", "--all").stdout.count("\n"), 100)

    def test_one_cost_everywhere(self):
        """A region's time is that of its kernel: in `fusion`, in `kernels`, at edges and in the graph, at all sizes alike."""
        onnx.save(small_transformer(), self.folder / "small.onnx")
        self.succeed("compile", "small.onnx", "-o", "small.tenon")
        totals = []
        for shape in ([], ["--shape", "x:1x128x32"], ["--shape", "x:8x128x32"], ["--shape", "x:128x128x32"]):
            record = self.json("explain", "fusion", "small.tenon", *shape)
            kernels = self.json("explain", "kernels", "small.tenon", *shape)
            graph = self.json("inspect", "small.tenon", *shape)["graph"]
            times = [region["cost"]["us"] for region in record["regions"]]
            for other in (kernels["regions"], graph["regions"]):
                self.assertEqual(times, [region["cost"]["us"] for region in other])
            for region, us in zip(record["regions"], times):
                (chosen,) = [one["us"] for one in region["candidates"] if one["verdict"] == "chosen"]
                self.assertAlmostEqual(chosen, us, delta=0.011)
            for edge in record["edges"]:
                self.assertAlmostEqual(times[edge["producerRegion"]] + times[edge["consumerRegion"]], edge["apart"]["us"], delta=0.031)
            totals.append(sum(times))
            self.assertIn(f"{totals[-1]:.2f} us  together" if totals[-1] < 1000 else f"{totals[-1] / 1000:.2f} ms  together",
                          self.succeed("explain", "kernels", "small.tenon", *shape).stdout)
        self.assertEqual(totals[0], totals[1])
        # Of so many elements nothing is left but bytes and operations: they grow with the batch, the starts of kernels do not.
        self.assertTrue(4 * totals[1] < totals[2] < 8 * totals[1], totals)
        self.assertTrue(12 * totals[2] < totals[3] < 24 * totals[2], totals)
        said = self.succeed("explain", "fusion", "small.tenon", "mm1", "--shape", "x:8x128x32").stdout
        self.assertIn("sizes: batch=8, length=128; --shape INPUT:SIZES shows others (kernels were chosen at batch=128, length=128)", said)
        self.assertIn("explain kernels accept it", self.refuse(2, "TN0105", "explain", "memory", "small.tenon", "--shape", "x:1x1x32").stderr)
        self.assertIn("sizes: batch=1, length=1, the smallest", self.succeed("explain", "memory", "small.tenon").stdout)
        self.assertIn("no input 'y'", self.refuse(2, "TN0105", "explain", "fusion", "small.tenon", "--shape", "y:1x1x1").stderr)

    def test_families_of_other_operations_are_left_out(self):
        """A product says why no family of products takes it, and nothing about convolutions or scans."""
        onnx.save(small_transformer(), self.folder / "small.onnx")
        self.succeed("compile", "small.onnx", "-o", "small.tenon", "--target", "cpu:avx2,cuda:sm_90")
        for variant in ("avx2", "sm_90"):
            variant = {"avx2": "x86-64-v3"}.get(variant, variant)
            for region in self.json("explain", "kernels", "small.tenon", "--variant", variant)["regions"]:
                families = [one["kernel"] for one in region["candidates"]]
                self.assertFalse([name for name in families if "conv" in name or "scan" in name or "top" in name], region["label"])
                self.assertFalse([one for one in region["candidates"] if "other strategies" in one["why"]])
        self.succeed("compile", CNN, "-o", "cnn.tenon", "--target", "cuda:sm_90")
        (region,) = self.json("explain", "kernels", "cnn.tenon", "/stem/stem.2/Relu")["regions"]
        self.assertFalse([one["kernel"] for one in region["candidates"] if one["kernel"].startswith("gem")])
        self.assertTrue([one["kernel"] for one in region["candidates"] if one["verdict"] == "refused"])

    def test_measured_refusals(self):
        onnx.save(small_transformer(), self.folder / "small.onnx")
        (region, *_) = self.json("bench", "small.onnx", "--kernels", "mm1", "--target", "cpu:avx2")["regions"]
        self.assertIn("--shape", region["skipped"])
        done = self.call("bench", "small.onnx", "--kernels", "nothere", "--target", "cpu:avx2")
        self.assertIn("no region has the node 'nothere'", done.stderr)
        self.succeed("compile", "small.onnx", "-o", "small.tenon", "--target", "cpu:avx2")
        self.assertIn("kernels are already chosen", self.call("bench", "small.tenon", "--kernels", "all").stderr)
        done = self.call("bench", "small.onnx", "--kernels", "all", "--target", "cpu:avx2,cuda:sm_90")
        self.assertIn("for one target", done.stderr)

    def test_every_kernel_of_gpus_compiles(self):
        """Without a GPU each is compiled and then fails for want of the driver, and for nothing else."""
        onnx.save(small_transformer(), self.folder / "small.onnx")
        for target in ("cuda:sm_80", "cuda:sm_90a"):
            regions = self.json("bench", "small.onnx", "--kernels", "all", "--target", target, "--precision", "fp16", "--shape",
                                "x:1x40x32")["regions"]
            kernels = [one for region in regions for one in region["kernels"]]
            self.assertGreater(len(kernels), 40)
            for one in kernels:
                self.assertRegex(one.get("problem", "libcuda"), "libcuda|GPU", one)


if __name__ == "__main__":
    unittest.main()
