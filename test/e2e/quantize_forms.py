"""`tenon quantize` on models of unusual forms: shared and transposed weights, fixed batches, other types than FP32, old and broken files. Numbers
stay near those of FP32, what cannot be narrow says why, and what is refused leaves nothing behind.
"""

import json
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from float_nets import Net, transformer
from quantize import by_peer, loss
from tool import ToolTest

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, dims, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def raw(nodes, constants, inputs, outputs, opset=17, ir=8):
    """A model that no checker saw."""
    return helper.make_model(helper.make_graph(nodes, "net", inputs, outputs, constants),
                             opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


class QuantizeForms(ToolTest):
    def save(self, model, name="net.onnx"):
        onnx.save(model, self.folder / name)
        return self.folder / name

    def quantize(self, model, data, *flags):
        if data is not None:
            np.savez(self.folder / "calib.npz", **data)
            flags = ("--data", "calib.npz", *flags)
        report = json.loads(self.succeed("quantize", model, "-o", "net8.onnx", "--json", *flags).stdout)
        onnx.checker.check_model(onnx.load(self.folder / "net8.onnx"), full_check=True)
        return report

    def treatments(self, report):
        return {layer["name"]: (layer["treatment"], layer["reason"]) for layer in report["layers"]}

    def loss(self, model, inputs):
        return loss(by_peer(self.folder / "net8.onnx", inputs), by_peer(model, inputs))

    def refused(self, code, words, *arguments):
        done = self.call("quantize", *arguments, "-o", "new.onnx")
        self.assertIn(f"error {code}:", done.stderr)
        self.assertIn(words, done.stderr)
        self.assertFalse((self.folder / "new.onnx").exists())

    def test_a_bias_of_one_number_is_for_all_channels(self):
        net = Net(3)
        x = "x"
        for name in ("a", "b", "c"):
            x = net.node("Gemm", [x, net.weight(name + "_w", 64, 64, depth=64), net.constant(name + "_b", np.array([5], np.float32))], name)
            x = net.node("Relu", [x], name + "_relu")
        model = self.save(net.model([value("x", ["n", 64])], [value("c_relu", ["n", 64])]))
        data = {"x": np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)}
        for flags in ((), ("--no-bias-correction",)):
            report = self.quantize(model, data, *flags, "--narrow", "b")
            self.assertEqual(self.treatments(report)["b"], ("int8", ""))
            self.assertLess(self.loss(model, data), 1e-3)

    def test_kernels_behind_a_transpose(self):
        net = Net(3)
        x = net.conv("image", "stem", 3, 32, 3)
        turned = net.node("Transpose", [net.weight("w", 3, 3, 32, 64, depth=150)], "turned", perm=[3, 2, 0, 1])
        x = net.node("Conv", [x, turned], "mid", kernel_shape=[3, 3], pads=[1] * 4)
        x = net.node("BatchNormalization", [x, *(net.constant(f"p{i}", np.linspace(0.5, 1.5, 64, dtype=np.float32)) for i in range(4))], "norm")
        net.conv(net.node("Relu", [x], "mid_relu"), "last", 64, 32, 3, relu=False)
        model = self.save(net.model([value("image", ["n", 3, 16, 16])], [value("last", ["n", 32, 16, 16])]))
        data = {"image": np.random.default_rng(0).standard_normal((8, 3, 16, 16)).astype(np.float32)}
        for samples, flags, treatment in ((None, ("--weights-only", 8), "weights only"), (data, ("--narrow", "mid", "--narrow", "last"), "int8")):
            report = self.quantize(model, samples, *flags)
            self.assertEqual(self.treatments(report)["mid"], (treatment, ""))
            self.assertLess(self.loss(model, data), 1e-3)

    def test_a_transpose_that_layers_share(self):
        net = Net(3)
        x = net.node("Gather", [net.constant("t", net.random.standard_normal((50, 64)).astype(np.float32)), "ids"], "rows")
        turned = net.node("Transpose", [net.weight("w", 64, 64, depth=64)], "turned", perm=[1, 0])
        for name, channels in (("p1", [3, 40]), ("p2", [9, 21]), ("p3", [])):
            gamma = np.ones(64, np.float32)
            gamma[channels] = 60  # each layer is smoothed by other factors
            x = net.node("LayerNormalization", [x, net.constant(name + "_g", gamma), net.constant(name + "_b", np.zeros(64, np.float32))], name + "_norm")
            x = net.node("MatMul", [x, turned if name != "p3" else net.weight("z", 64, 64, depth=64)], name)
        model = self.save(net.model([value("ids", ["n", 16], INT64)], [value("p3", ["n", 16, 64])]))
        data = {"ids": np.random.default_rng(0).integers(0, 50, (16, 16))}
        for flags in ((), ("--keep", "p1")):
            self.assertEqual(self.treatments(self.quantize(model, data, *flags))["p2"][0], "int8")
            self.assertLess(self.loss(model, data), 2e-2)
        for bits, most in ((8, 1e-3), (4, 5e-2)):
            self.quantize(model, None, "--weights-only", bits)
            self.assertLess(self.loss(model, data), most)
            kept = {tensor.name for tensor in onnx.load(self.folder / "net8.onnx").graph.initializer}
            self.assertNotIn("w", kept)

    def test_a_fixed_batch_counts_each_sample_once(self):
        def ranges(batch, samples):
            net = Net(3)
            x = "x"
            for name in ("a", "b", "c"):
                x = net.node("Relu", [net.node("MatMul", [x, net.weight(name + "_w", 64, 64, depth=64)], name)], name + "_relu")
            model = self.save(net.model([value("x", [batch, 64])], [value("c_relu", [batch, 64])]))
            report = self.quantize(model, {"x": samples}, "--narrow", "b", "--ranges", "percentile", "--percentile", "99", "--no-smoothing")
            self.assertEqual(report["samples"], 32)
            return {tensor["name"]: tensor["range"] for tensor in report["tensors"]}, report["warnings"]

        samples = np.random.default_rng(0).standard_normal((40, 64)).astype(np.float32)
        samples[3::4] *= 0.01
        free, warnings = ranges("n", samples[:32])
        self.assertEqual(warnings, [])
        fixed, warnings = ranges(32, samples)
        self.assertIn("8 samples do not fill a batch", " ".join(warnings))
        for name, expected in free.items():
            np.testing.assert_allclose(fixed[name], expected, rtol=1e-5)

    def test_products_of_other_types_stay_wide(self):
        for dtype, reason in ((TensorProto.FLOAT16, "it multiplies float16"), (TensorProto.INT32, "it multiplies int32")):
            net = Net(3)
            a = net.node("Cast", ["x"], "a", to=dtype)
            gram = net.node("MatMul", [a, net.node("Transpose", [a], "turned", perm=[0, 2, 1])], "gram")
            x = net.node("MatMul", [net.node("Cast", [gram], "wide", to=FLOAT), net.weight("v", 32, 64, depth=32)], "inner")
            net.node("MatMul", [net.node("Relu", [x], "relu"), net.weight("w", 64, 64, depth=64)], "y")
            model = self.save(net.model([value("x", ["n", 32, 32])], [value("y", ["n", 32, 64])]))
            data = {"x": np.random.default_rng(0).standard_normal((8, 32, 32)).astype(np.float32) * 2}
            report = self.quantize(model, data, "--narrow", "gram")
            self.assertEqual(self.treatments(report)["gram"], ("wide", reason))
            self.assertEqual(self.treatments(report)["inner"], ("int8", ""))
            self.assertLess(self.loss(model, data), 1e-3)

    def test_broken_nodes(self):
        w = numpy_helper.from_array(np.ones((256, 256), np.float32), "w")
        good = helper.make_node("MatMul", ["x", "w"], ["y"], name="m")
        for nodes in ([helper.make_node("MatMul", [], ["y"])], [helper.make_node("MatMul", ["x"], ["y"])], [helper.make_node("MatMul", ["x", "w"], [])],
                      [good, helper.make_node("Gather", [], ["g"])], [helper.make_node("Constant", [], [], value=w), good], [helper.make_node("Relu", [], []), good]):
            model = self.save(raw(nodes, [w], [value("x", ["n", 256])], [value("y", ["n", 256])]))
            self.refused("TN0218", "inputs and", model, "--weights-only", 8)
        cycle = [helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
        model = self.save(raw(cycle, [w], [value("x", ["n", 256])], [value("y", ["n", 256])]))
        self.refused("TN0217", "which is defined later", model, "--weights-only", 8)

    def test_norms_that_do_not_fit_are_left(self):
        weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((64, 32, 3, 3)).astype(np.float32), "w")
        sizes = {"s": 64, "b": 1, "m": 1, "v": 1}
        parameters = [numpy_helper.from_array(np.ones(size, np.float32), name) for name, size in sizes.items()]
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("BatchNormalization", ["c", *sizes], ["y"])]
        model = self.save(raw(nodes, [weight, *parameters], [value("x", ["n", 32, 8, 8])], [value("y", ["n", 64, 6, 6])]))
        self.succeed("quantize", model, "--weights-only", 8, "-o", "net8.onnx")
        self.assertIn("BatchNormalization", [node.op_type for node in onnx.load(self.folder / "net8.onnx").graph.node])

    def test_many_residuals(self):
        """Each is looked at once: their 2^40 ways through the net would take longer than a test may."""
        net = Net(3)
        x = net.node("Flatten", [net.node("GlobalAveragePool", ["x"], "pool")], "flat")
        for i in range(40):
            x = net.node("Add", [net.node("Relu", [net.node("Gemm", [x, net.weight(f"w{i}", 16, 16, depth=16)], f"g{i}")], f"r{i}"), x], f"a{i}")
        net.node("MatMul", [x, net.weight("last_w", 16, 1024, depth=16)], "last")
        model = self.save(net.model([value("x", ["n", 16, 4, 4])], [value("last", ["n", 1024])]))
        report = self.quantize(model, None, "--weights-only", 8)
        self.assertEqual(report["layers"][-1]["treatment"], "weights only")

    def test_old_files(self):
        weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32), "w")
        product = helper.make_node("MatMul", ["x", "w"], ["y"], name="m")
        model = self.save(raw([product], [weight], [value("x", ["n", 256]), value("w", [256, 256])], [value("y", ["n", 256])], opset=13, ir=3))
        self.quantize(model, None, "--weights-only", 8)
        self.assertLess(self.loss(model, {"x": np.ones((1, 256), np.float32)}), 1e-3)
        kernel = numpy_helper.from_array(np.ones((64, 32, 3, 3), np.float32), "w")
        parameters = [numpy_helper.from_array(np.ones((64, 6, 6), np.float32), name) for name in "sbmv"]
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("BatchNormalization", ["c", *"sbmv"], ["y"], spatial=0)]
        model = self.save(raw(nodes, [kernel, *parameters], [value("x", ["n", 32, 8, 8])], [value("y", ["n", 64, 6, 6])], opset=8))
        self.refused("TN0105", "is not known to mean the same", model, "--weights-only", 8)

    def test_opset_11_resizes(self):
        net = Net(3)
        x = net.conv("image", "first", 16, 64, 3)
        x = net.node("Resize", [x, net.constant("roi", np.zeros(0, np.float32)), net.constant("by", np.array([1, 1, 2, 2], np.float32))], "up", mode="nearest")
        net.conv(x, "second", 64, 64, 3, relu=False)
        model = self.save(net.model([value("image", ["n", 16, 8, 8])], [value("second", ["n", 64, 16, 16])], opset=11, ir=6))
        self.quantize(model, None, "--weights-only", 8)
        self.assertLess(self.loss(model, {"image": np.random.default_rng(0).standard_normal((2, 16, 8, 8)).astype(np.float32)}), 1e-3)

    def test_constants_behind_nodes(self):
        """Weights that nodes compute of constants are folded; those that a branch reads too are stored once."""
        random = np.random.default_rng(4)
        weight = (random.standard_normal((64, 64, 3, 3)) / 24).astype(np.float32)
        norms = np.float32(np.sqrt((weight.astype(np.float64) ** 2).sum((1, 2, 3), keepdims=True)))
        node = helper.make_node
        branch = lambda kind: helper.make_graph([node("Conv", ["r", "w"], [kind], pads=[1] * 4, name=kind + "_conv")], kind, [], [value(kind, None)])
        cases = {
            "identity": ([node("Identity", ["w0"], ["i"]), node("Identity", ["i"], ["w"])], {"w0": weight}),
            "half": ([node("Cast", ["w0"], ["w"], to=FLOAT)], {"w0": weight.astype(np.float16)}),
            "moved": ([node("Reshape", ["w0", "to"], ["m"]), node("Transpose", ["m"], ["w"], perm=[1, 0, 2, 3])], {"w0": np.ascontiguousarray(weight.transpose(1, 0, 2, 3)).reshape(64, -1), "to": np.int64([0, 64, 3, -1])}),
            "normalized": ([node("ReduceL2", ["v"], ["n"], axes=[1, 2, 3]), node("Div", ["v", "n"], ["d"]), node("Mul", ["d", "g"], ["w"])], {"v": weight * np.float32(3), "g": norms}),
            "sliced": ([node("Concat", ["a", "b"], ["c"], axis=0), node("Slice", ["c", "from", "to", "axes", "steps"], ["w"])],
                       {"a": weight[:16], "b": weight[16:], "from": np.int64([-1]), "to": np.int64([-65]), "axes": np.int64([0]), "steps": np.int64([-1])}),
            "cut": ([node("Split", ["all"], ["w", "rest"], axis=0), node("Constant", [], ["unread"], value_float=2.0)], {"all": np.concatenate([weight, weight])}),
            "listed": ([node("Constant", [], ["flat"], value_floats=[float(each) for each in weight.ravel()]), node("Constant", [], ["to"], value_ints=[64, 64, 3, 3]), node("Reshape", ["flat", "to"], ["w"])], {}),
            "merged": ([node("MatMul", ["down", "up"], ["delta"]), node("Reshape", ["delta", "to"], ["d"]), node("Add", ["base", "d"], ["w"])],
                       {"down": weight[:, :4, 0, 0].copy(), "up": weight[:4].reshape(4, -1), "to": np.int64([64, 64, 3, 3]), "base": weight}),
            "bounded": ([node("Greater", ["base", "low"], ["is"]), node("Where", ["is", "base", "low"], ["b"]), node("Clip", ["b", "low", "high"], ["c"]), node("Cast", ["wide"], ["narrow"], to=FLOAT), node("Mul", ["c", "narrow"], ["w"])],
                        {"base": weight, "low": np.float32(-0.1), "high": np.float32(0.1), "wide": np.float64([1.5])}),
            "branch": ([node("ReduceMax", ["r"], ["most"], keepdims=0), node("Cast", ["most"], ["is"], to=TensorProto.BOOL), node("If", ["is"], ["o"], name="if", then_branch=branch("t"), else_branch=branch("e"))], {"w": weight}),
        }
        data = {"image": random.standard_normal((16, 16, 12, 12)).astype(np.float32)}
        for name, (nodes, constants) in cases.items():
            with self.subTest(name=name):
                net = Net(3)
                net.conv("image", "stem", 16, 64, 3)
                nodes = [*net.nodes[:-1], node("Relu", ["stem"], ["r"]), *nodes, node("Conv", ["r", "w"], ["x"], name="mid", pads=[1] * 4),
                         node("Add", ["x", "o"], ["h"]) if name == "branch" else node("Relu", ["x"], ["h"]), node("Neg", ["h"], ["y"])]
                tensors = [*net.constants, *(numpy_helper.from_array(np.asarray(array), key) for key, array in constants.items())]
                model = self.save(raw(nodes, tensors, [value("image", ["n", 16, 12, 12])], [value("y", ["n", 64, 12, 12])], opset=13))
                report = self.quantize(model, data)
                self.assertEqual(self.treatments(report)["mid"], ("int8", ""))
                self.assertLess(self.loss(model, data), 1e-3)
                self.assertLess((self.folder / "net8.onnx").stat().st_size, 2.5 * weight.size)
                if name == "branch":
                    self.assertEqual(self.treatments(report)["t_conv"], ("weights only", "inside of If 'if': its activations have no ranges"))

    def test_old_operators(self):
        """What opsets 7 to 12 spell otherwise, also in If and Loop, and Softmax over several dims, whose rank the model says or not."""
        def branch(kind, op):
            nodes = [helper.make_node("Unsqueeze", ["r"], [kind + "_u"], axes=[0]), helper.make_node("Softmax", [kind + "_u"], [kind + "_s"], axis=2),
                     helper.make_node(op, [kind + "_s"], [kind + "_n"]), helper.make_node("Squeeze", [kind + "_n"], [kind], axes=[0])]
            return helper.make_graph(nodes, kind, [], [value(kind, None)])

        body = helper.make_graph([helper.make_node("ReduceSum", ["v"], ["sum"], axes=[2], keepdims=1), helper.make_node("Mul", ["sum", "v"], ["scaled"]),
                                  helper.make_node("Tanh", ["scaled"], ["next"]), helper.make_node("Identity", ["go"], ["on"])], "body",
                                 [value("i", [], INT64), value("go", [], TensorProto.BOOL), value("v", [2, 16, 64])], [value("on", [], TensorProto.BOOL), value("next", [2, 16, 64])])
        node, half = helper.make_node, np.float32([1, 1.5, 1])
        cases = {
            "softmax": (range(7, 13), [node("Softmax", ["r"], ["b"], axis=1)], {}),
            "hardmax": (range(7, 13), [node("Hardmax", ["r"], ["h"]), node("Add", ["h", "r"], ["b"])], {}),
            "if": (range(7, 13), [node("ReduceMax", ["r"], ["most"], keepdims=0), node("Cast", ["most"], ["c"], to=TensorProto.BOOL),
                                  node("If", ["c"], ["o"], then_branch=branch("t", "Neg"), else_branch=branch("e", "Abs")), node("Add", ["o", "r"], ["b"])], {}),
            "loop": (range(7, 13), [node("Loop", ["times", "yes", "r"], ["b"], body=body)], {"times": np.int64(2), "yes": np.bool_(True)}),
            "attributes": (range(7, 10), [node("Clip", ["r"], ["c"], min=-1.0, max=1.0), node("Pad", ["c"], ["p"], pads=[0, 1, 0, 0, 0, 0]), node("Slice", ["p"], ["s"], starts=[1], ends=[17], axes=[1]),
                                          node("TopK", ["s"], ["b", "i"], k=8, axis=1)], {}),
            "upsample": ((7, 8), [node("Upsample", ["r"], ["b"], scales=[1.0, 2.0, 1.0])], {}),
            "upsample_by": ((9,), [node("Upsample", ["r", "by"], ["b"])], {"by": half}),
            "resize": ((10,), [node("Resize", ["r", "by"], ["b"])], {"by": half}),
            "scatter": ((9, 10), [node("Scatter", ["r", "i", "u"], ["b"], axis=1)], {"i": np.zeros((2, 1, 64), np.int64), "u": np.ones((2, 1, 64), np.float32)}),
            "same": ((12,), [node("Einsum", ["r", "e"], ["m"], equation="nij,jk->nik"), node("Celu", ["m"], ["c"]), node("GreaterOrEqual", ["c", "r"], ["g"]), node("Where", ["g", "c", "r"], ["b"])],
                     {"e": np.eye(64, dtype=np.float32)}),
        }
        random = np.random.default_rng(2)
        x = {"x": random.standard_normal((2, 16, 64)).astype(np.float32)}
        for name, (opsets, nodes, constants) in cases.items():
            weights = {f"w{i}": (random.standard_normal((64, columns)) / 8).astype(np.float32) for i, columns in enumerate((64, 256))}
            ends = [node("MatMul", ["x", "w0"], ["a"]), node("Relu", ["a"], ["r"])], [node("MatMul", ["b", "w1"], ["d"], name="middle"), node("MatMul", ["d", "w4"], ["y"])]
            weights["w4"] = (random.standard_normal((256, 8)) / 16).astype(np.float32)
            tensors = [numpy_helper.from_array(np.asarray(array), key) for key, array in {**weights, **constants}.items()]
            for opset in opsets:
                with self.subTest(name=name, opset=opset):
                    model = self.save(raw([*ends[0], *nodes, *ends[1]], tensors, [value("x", [2, 16, 64])], [value("y", ["a", "b", "c"])], opset, 7))
                    self.quantize(model, None, "--weights-only", 8)
                    self.assertLess(self.loss(model, x), 1e-3)
                    if opset == opsets[0]:
                        self.quantize(model, None, "--weights-only", 4, "--int4-form", "qdq")
                        self.assertLess(self.loss(model, x), 0.1)
                        self.succeed("prune", model, "--ratio", "10%", "--multiple", 1, "--no-timing", "-o", "narrow.onnx")
                        by_peer(self.folder / "narrow.onnx", x)

    def test_tables_can_stay_wide(self):
        boxes = np.stack([np.arange(4096), np.arange(4096) / 2, np.ones(4096), np.full(4096, 2)], 1).astype(np.float32)
        net = Net(3)
        found = net.node("Gather", [net.constant("boxes", boxes), "ids"], "box")
        word = net.node("Gather", [net.constant("words", net.random.standard_normal((4096, 64)).astype(np.float32)), "ids"], "word")
        x = net.node("MatMul", [word, net.weight("w", 64, 256, depth=64)], "inner")
        net.node("Concat", [net.node("Relu", [x], "relu"), found], "y", axis=1)
        model = self.save(net.model([value("ids", ["n"], INT64)], [value("y", ["n", 260])]))
        few = {"name": "box", "treatment": "wide", "reason": "fewer than 16 columns", "weight_error": 0}
        report = self.quantize(model, None, "--weights-only", 8)
        tables = {table["name"]: table for table in report["tables"]}
        self.assertEqual((tables["box"], tables["word"]["treatment"], report["embeddings"]), (few, "weights only", 1))
        self.assertTrue(0 < tables["word"]["weight_error"] < 1e-3)
        ids = {"ids": np.arange(2000, 4000, 7)}
        np.testing.assert_array_equal(by_peer(self.folder / "net8.onnx", ids)[:, 256:], boxes[ids["ids"]])
        report = self.quantize(model, None, "--weights-only", 8, "--keep", "word")
        self.assertEqual(report["embeddings"], 0)
        text = self.succeed("quantize", model, "--weights-only", 4).stdout
        self.assertTrue((self.folder / "net.w4.onnx").exists())
        self.assertIn("weights of 1 of 1 layers in few bits, 1 embedding tables; ", text.splitlines()[0])
        self.assertRegex(text, r"box +Gather +wide +fewer than 16 columns")

    def test_options_that_say_nothing_are_refused(self):
        model = self.save(transformer(), "transformer.onnx")
        np.savez(self.folder / "calib.npz", ids=np.random.default_rng(0).integers(0, 1000, (4, 16)))
        self.refused("TN0105", "--narrow asks", model, "--weights-only", 8, "--narrow", "q0")
        self.refused("TN0105", "--data is given", model, "--weights-only", 8, "--data", "calib.npz")
        self.refused("TN0105", "both name 'q0'", model, "--data", "calib.npz", "--keep", "q0", "--narrow", "q0")
        self.refused("TN0105", "--percentile has no effect", model, "--data", "calib.npz", "--percentile", 99)

    def test_zeros_lose_nothing(self):
        net = Net(3)
        x = net.node("MatMul", ["x", net.weight("a", 64, 64, depth=64)], "first")
        x = net.node("Relu", [net.node("Sub", [x, net.constant("far", np.float32(1e6))], "below")], "zeros")
        x = net.node("MatMul", [x, net.weight("b", 64, 64, depth=64)], "second")
        net.node("MatMul", [net.node("Relu", [x], "relu"), net.weight("c", 64, 64, depth=64)], "third")
        model = self.save(net.model([value("x", ["n", 64])], [value("third", ["n", 64])]))
        np.savez(self.folder / "calib.npz", x=np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32))
        for ranges in ("mse", "entropy"):
            text = self.succeed("quantize", model, "--data", "calib.npz", "-o", "net8.onnx", "--ranges", ranges).stdout
            self.assertTrue(text.startswith("net8.onnx: "), text)


if __name__ == "__main__":
    unittest.main()
