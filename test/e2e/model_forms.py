"""Forms of ONNX models that few exporters write and all readers have: one value as several outputs, sparse tensors, functions
called without an input, norms of every rank, reductions of every integer type. Against ONNX's reference or numpy.
"""

import sys
import unittest
import zipfile

import numpy as np
import onnx
from microsoft import Builder, by_runtime
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tool import ToolTest

RANDOM = np.random.default_rng(46)
REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


class ModelForms(ToolTest):
    def values_of(self, model, feed, *options):
        onnx.save(model, self.folder / "m.onnx")
        np.savez(self.folder / "in.npz", **feed)
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:avx2", *options)
        self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
        found = np.load(self.folder / "out.npz")
        return {name: found[name] for name in found.files}

    def agree(self, model, feed, tolerance=1e-6):
        found = self.values_of(model, feed)
        for (name, value), wanted in zip(found.items(), ReferenceEvaluator(model).run(None, feed), strict=True):
            with self.subTest(output=name):
                self.assertEqual((np.shape(wanted), wanted.dtype), (value.shape, value.dtype))
                np.testing.assert_allclose(value, wanted, rtol=tolerance, atol=tolerance)

    def test_a_value_is_several_outputs(self):
        b = Builder()
        b.input("x", ["rows", 2])
        b.constant("w", np.arange(2, dtype=np.float32))
        b.add("Relu", ["x"], "y", domain="")
        b.add("Identity", ["y"], "same", domain="")
        b.add("Neg", ["x"], "y.1", domain="")
        model = b.model()
        for name in ("y", "x", "x", "w", "w", "y"):
            model.graph.output.append(helper.make_tensor_value_info(name, T.FLOAT, None))
        x = np.array([[-1, 2], [3, -4], [5, 6]], np.float32)
        found = self.values_of(model, {"x": x})
        self.assertEqual(["y", "same", "y.1", "y.2", "x", "x.1", "w", "w.1", "y.3"], list(found))
        for name, value in found.items():
            wanted = {"w": b.constants[0], "x": x, "y": np.maximum(x, 0), "same": np.maximum(x, 0)}[name.split(".")[0]]
            wanted = numpy_helper.to_array(wanted) if name.startswith("w") else -x if name == "y.1" else wanted
            np.testing.assert_array_equal(value, wanted)
        self.assertIn("y.3", self.succeed("inspect", "m.tenon").stdout)
        self.succeed("check", "m.onnx")

    def test_sparse_tensors(self):
        def sparse(name, values, indices, dims):
            parts = numpy_helper.from_array(np.array(values), name), numpy_helper.from_array(np.array(indices, np.int64), "i")
            return helper.make_sparse_tensor(*parts, dims)

        b = Builder()
        b.input("x", [2, 3])
        b.add("Add", ["x", "linear"], "sum", domain="")
        b.add("Mul", ["x", "pairs"], "product", domain="")
        b.nodes.append(helper.make_node("Constant", [], ["c"], sparse_value=sparse("", np.array([3], np.float32), [2], [3])))
        b.add("Add", ["x", "c"], "constant", domain="")
        b.add("MatMul", ["x", "none"], "zeros", domain="")
        model = b.model()
        model.graph.sparse_initializer.extend([sparse("linear", np.array([1.5, 2.5], np.float32), [1, 5], [2, 3]),
                                               sparse("pairs", np.array([4, 5], np.float32), [[0, 2], [1, 0]], [2, 3]),
                                               sparse("none", np.zeros(0, np.float32), [], [3, 400])])
        x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
        found = self.values_of(model, {"x": x})
        np.testing.assert_array_equal(found["sum"], x + np.array([[0, 1.5, 0], [0, 0, 2.5]]))
        np.testing.assert_array_equal(found["product"], x * np.array([[0, 0, 4], [5, 0, 0]]))
        np.testing.assert_array_equal(found["constant"], x + np.array([0, 0, 3]))
        np.testing.assert_array_equal(found["zeros"], np.zeros((2, 400)))
        for values, indices, dims in (([1, 2], [5, 1], [2, 3]), ([1], [6], [2, 3]), ([1], [[0, 3]], [2, 3]), ([1], [-1], [2, 3]),
                                      ([1, 2], [1], [2, 3]), ([1], [1], [1 << 40])):
            model.graph.sparse_initializer[0].CopyFrom(sparse("linear", np.array(values, np.float32), indices, dims))
            onnx.save(model, self.folder / "m.onnx")
            with self.subTest(indices=indices):
                self.assertRegex(self.call("check", "m.onnx").stderr, "tensor 'linear'.*(indices|index|2 GiB)")

    def test_functions_without_inputs(self):
        opsets = [helper.make_opsetid("", 17)]
        clip = helper.make_function("own", "Bound", ["X", "lo", "hi"], ["Y"], [helper.make_node("Clip", ["X", "lo", "hi"], ["Y"])], opsets)
        inner = helper.make_function("own", "Twice", ["X", "lo", "hi"], ["Y"], [
            helper.make_node("Bound", ["X", "lo", "hi"], ["a"], domain="own"), helper.make_node("Add", ["a", "a"], ["Y"])],
            [*opsets, helper.make_opsetid("own", 1)])
        branch = [helper.make_graph([helper.make_node("Clip", ["X", *limits], [name])], name, [],
                                    [helper.make_tensor_value_info(name, T.FLOAT, None)]) for name, limits in (("t", ["lo", "hi"]), ("e", ["", "hi"]))]
        choice = helper.make_function("own", "Chosen", ["X", "flag", "lo", "hi"], ["Y"], [
            helper.make_node("If", ["flag"], ["Y"], then_branch=branch[0], else_branch=branch[1])], opsets)
        b = Builder()
        b.input("x", [5])
        b.input("flag", [], T.BOOL)
        b.constant("half", np.float32(0.5))
        for op in ("Bound", "Twice"):
            for number, inputs in enumerate((["x"], ["x", "", "half"], ["x", "half"], ["x", "", ""])):
                b.add(op, inputs, f"{op}{number}", domain="own")
        b.add("Chosen", ["x", "flag"], "chosen", domain="own")
        b.add("Chosen", ["x", "flag", "", "half"], "chosen_high", domain="own")
        model = b.model()
        model.functions.extend([clip, inner, choice])
        model.opset_import.append(helper.make_opsetid("own", 1))
        x = np.array([-2, 0.2, 3, 0.5, np.inf], np.float32)
        found = self.values_of(model, {"x": x, "flag": np.array(True)})
        for number, wanted in enumerate((x, np.minimum(x, 0.5), np.maximum(x, 0.5), x)):
            np.testing.assert_array_equal(found[f"Bound{number}"], wanted)
            np.testing.assert_array_equal(found[f"Twice{number}"], 2 * wanted)
        np.testing.assert_array_equal(found["chosen"], x)
        np.testing.assert_array_equal(found["chosen_high"], np.minimum(x, 0.5))

    def test_batch_norms_of_every_rank(self):
        for rank in range(1, 6):
            shape = (4,) if rank == 1 else (2, 3, 4, 2, 3)[:rank]
            channels = 1 if rank == 1 else 3
            b = Builder()
            b.input("x", ["batch", *shape[1:]])
            for name in ("scale", "bias", "mean"):
                b.random(name, channels)
            b.constant("variance", RANDOM.uniform(0.5, 2, channels).astype(np.float32))
            parameters = ["scale", "bias", "mean", "variance"]
            b.add("BatchNormalization", ["x", *parameters], "plain", domain="", epsilon=1e-3)
            if rank > 1:  # the reference has no statistics of one dimension
                b.add("BatchNormalization", ["x", *parameters], ["trained", "new_mean", "new_variance"], domain="", training_mode=1)
            with self.subTest(rank=rank):
                self.agree(b.model(), {"x": RANDOM.standard_normal(shape).astype(np.float32)}, 1e-5)

    def test_integers_reduce(self):
        for kind, element in ((T.INT32, np.int32), (T.INT64, np.int64), (T.UINT32, np.uint32), (T.UINT64, np.uint64)):
            b = Builder(opset=18)
            b.input("x", [3, "columns"], kind)
            b.constant("one", np.array([1], np.int64))
            for op in REDUCTIONS:
                b.add("Reduce" + op, ["x", "one"], op, kind, domain="")
                b.add("Reduce" + op, ["x"], op + "_all", kind, domain="", keepdims=0)
            x = np.array([[1, 9, 4, 7], [5, 5, 2, 3], [8, 1, 1, 6]], element)
            with self.subTest(type=element):
                found = self.values_of(b.model(), {"x": x})
                for suffix, options in (("", {"axis": 1, "keepdims": True}), ("_all", {})):
                    reals = x.astype(np.float64)
                    by_numpy = {"L1": x.sum(**options), "L2": np.sqrt((reals * reals).sum(**options)), "LogSum": np.log(reals.sum(**options)),
                                "LogSumExp": np.log(np.exp(reals).sum(**options)), "Max": x.max(**options), "Mean": reals.mean(**options),
                                "Min": x.min(**options), "Prod": x.prod(**options), "Sum": x.sum(**options), "SumSquare": (x * x).sum(**options)}
                    for op, wanted in by_numpy.items():
                        self.assertEqual(found[op + suffix].dtype, element)
                        np.testing.assert_array_equal(found[op + suffix], np.asarray(wanted).astype(element), op)

    def test_resizes_by_any_factor(self):
        """One engine of a free size gives the sizes and values of ONNX Runtime, which rounds the product of two floats."""
        b = Builder()
        b.input("x", [1, 2, "rows", "columns"])
        factors = (1.7, 0.3, 1 / 3, 2.3456, 0.999, 1.0417, 4.4)
        for number, factor in enumerate(factors):
            b.constant(f"s{number}", np.array([1, 1, factor, factors[number - 1]], np.float32))
            mode = {"mode": "linear"} if number % 2 else {"mode": "nearest"}
            b.add("Resize", ["x", "", f"s{number}"], f"by{number}", domain="", **mode)
        model = b.model()
        onnx.save(model, self.folder / "m.onnx")
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:avx2", "--shape", "x:1x2x[1..512]x[1..512]")
        for rows, columns in ((4, 10), (10, 20), (33, 7), (101, 50)):
            x = RANDOM.standard_normal((1, 2, rows, columns)).astype(np.float32)
            np.savez(self.folder / "in.npz", x=x)
            self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
            found = np.load(self.folder / "out.npz")
            for output, wanted in zip(b.outputs, by_runtime(model, {"x": x})):
                with self.subTest(output=output.name, rows=rows):
                    self.assertEqual(wanted.shape, found[output.name].shape)
                    np.testing.assert_allclose(found[output.name], wanted, rtol=1e-4, atol=1e-4)
        # 330 * 3.1 is 1022 in floats, where 31 / 10 is right before.
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([1, 1, 3.1, 1], np.float32), "s0"))
        onnx.save(model, self.folder / "m.onnx")
        self.assertIn("a range of sizes up to 329", self.call("check", "m.onnx", "--shape", "x:1x2x[1..512]x[1..512]").stdout)
        self.succeed("check", "m.onnx", "--shape", "x:1x2x[1..329]x[1..512]")

    def test_a_hint_is_true(self):
        """Where it says that onnx.checker names the node it does; else it names the page of the operator, which the checker may let through."""
        wrong = {"arity": ("Add", ["x"], {}, ""), "unknown": ("Relu", ["x"], {"alpha": 1.0}, ""), "kind": ("Transpose", ["x"], {"perm": 1.0}, ""),
                 "missing": ("Cast", ["x"], {}, ""), "perm": ("Transpose", ["x"], {"perm": [0, 0]}, ""), "scalar": ("MatMul", ["x", "w"], {}, ""),
                 "trees": ("TreeEnsembleRegressor", ["x"], {"nodes_treeids": [0]}, "ai.onnx.ml"), "contrib": ("QuickGelu", ["x"], {"beta": 1.0}, "com.microsoft"),
                 "blocks": ("MatMulNBits", ["x", "w", "w"], {"N": 4, "K": 3, "block_size": 16}, "com.microsoft")}
        pages = {"": "onnx.ai/onnx/operators/onnx__{}.html", "ai.onnx.ml": "onnx.ai/onnx/operators/onnx_aionnxml_{}.html", "com.microsoft": "{} in ContribOperators.md"}
        for name, (op, inputs, attributes, domain) in wrong.items():
            node = helper.make_node(op, inputs, ["y"], domain=domain, **attributes)
            graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", T.FLOAT, [2, 3])], [helper.make_tensor_value_info("y", T.FLOAT, None)],
                                      [numpy_helper.from_array(np.zeros((2, 3), np.float32), "w")])
            opsets = [helper.make_opsetid(each, version) for each, version in (("", 17), ("ai.onnx.ml", 3), ("com.microsoft", 1))]
            model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
            onnx.save(model, self.folder / "wrong.onnx")
            hint = next(line for line in self.call("check", "wrong.onnx").stderr.split("\n") if "try:" in line)
            with self.subTest(wrong=name):
                if "onnx.checker reports it" in hint:
                    with self.assertRaises(onnx.checker.ValidationError):
                        onnx.checker.check_model(model, full_check=True)
                else:
                    self.assertIn(pages[domain].format(op), hint)

    def test_names_of_an_archive(self):
        b = Builder()
        b.input("eingang_ä", [2])
        for name in ("出力", "sortie_é", "y"):
            b.add("Relu", ["eingang_ä"], name, domain="")
        found = self.values_of(b.model(), {"eingang_ä": np.array([-1, 1], np.float32)})
        self.assertEqual(["出力", "sortie_é", "y"], list(found))
        flags = [entry.flag_bits for entry in zipfile.ZipFile(self.folder / "out.npz").infolist()]
        self.assertEqual([0x800, 0x800, 0], flags)


if __name__ == "__main__":
    sys.exit(unittest.main())
