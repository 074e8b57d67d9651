"""State whose size the session decides, by the command line: `--session` of run, bench and profile, in a model where an input has the symbol too."""

import json
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from tool import ToolTest


def value(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


class SessionSizes(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        nodes = [helper.make_node("ScatterND", ["cache", "rows", "x"], ["new"]), helper.make_node("MatMul", ["weights", "new"], ["y"])]
        graph = helper.make_graph(nodes, "g", [value("cache", ["cap", 4]), value("rows", ["n", 1], TensorProto.INT64), value("x", ["n", 4]), value("weights", [1, "cap"])],
                                  [value("new", ["cap", 4]), value("y", [1, 4])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), cls.folder / "m.onnx")
        cls.succeed("compile", "m.onnx", "-o", "m.tenon", "--state", "cache=new", "--shape", "cache:[2..1000]x4", "--target", "cpu:avx2", "--verify")

    def test_inspect(self):
        facts = json.loads(self.succeed("inspect", "m.tenon", "--json").stdout)
        self.assertEqual(facts["symbols"][0], {"name": "cap", "min": 2, "max": 1000, "of_session": True, "preset": 1000})
        self.assertEqual([port["name"] for port in facts["inputs"]], ["rows", "x", "weights"])

    def test_preset(self):
        compiled = "compile", "m.onnx", "-o", "p.tenon", "--state", "cache=new", "--shape", "cache:[2..1000]x4", "--target", "cpu:avx2"
        self.succeed(*compiled, "--session", "cap=8")
        self.assertEqual(json.loads(self.succeed("run", "p.tenon", "--json").stdout)["inputs"][2]["dims"], [1, 8])
        for flag, said in (("cap=1", "its range is 2 to 1000"), ("n=1", "no state has 'n'"), ("cape=8", "did you mean 'cap'")):
            self.assertIn(said, self.refuse(2, "TN0105", *compiled, "--session", flag).stderr)

    def test_run(self):
        random = np.random.default_rng(3)
        for cap in (2, 8, 1000):
            rows = random.choice(cap, 2, replace=False).reshape(2, 1)
            x, weights = random.standard_normal((2, 4), np.float32), random.standard_normal((1, cap), np.float32)
            np.savez(self.folder / "in.npz", rows=rows, x=x, weights=weights)
            self.succeed("run", "m.tenon", "--session", f"cap={cap}", "--inputs", "in.npz", "-o", "out.npz")
            np.testing.assert_allclose(np.load(self.folder / "out.npz")["y"], weights[:, rows[:, 0]] @ x, rtol=1e-5, atol=1e-5)

    def test_seeded_inputs_follow(self):
        run = json.loads(self.succeed("run", "m.tenon", "--session", "cap=8", "--json").stdout)
        self.assertEqual(run["inputs"][2]["dims"], [1, 8])
        self.succeed("bench", "m.tenon", "--session", "cap=8", "--runs", "2")
        self.succeed("profile", "m.tenon", "--session", "cap=8", "--seconds", "0.01")
        self.succeed("run", "m.onnx", "--state", "cache=new", "--session", "cap=3", "--target", "cpu:avx2")

    def test_what_is_refused(self):
        for flag, said in (("cap=1", "the engine accepts 2 to 1000"), ("cap=1001", "the engine accepts 2 to 1000"), ("pages=8", "no symbol 'pages'"),
                           ("n=2", "no symbol 'n'"), ("cap", "is not a symbol and a whole number"), ("cap=x", "is not a symbol and a whole number"), ("=8", "is not a symbol")):
            with self.subTest(flag=flag):
                self.assertIn(said, self.refuse(2, "TN0105", "run", "m.tenon", "--session", flag).stderr)
        self.refuse(2, "TN0604", "run", "m.tenon", "--session", "cap=8", "--shape", "weights:1x9")


if __name__ == "__main__":
    unittest.main()
