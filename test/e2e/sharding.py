"""`tenon explain sharding`: all ranks of a cut graph equal one rank, pins hold or are refused, and figures follow from shapes."""

import unittest

import onnx
from sharding_nets import NETS
from tool import SOURCE, ToolTest

TOLERANCE = 1e-9  # of the largest element, in float64
# Messages that cost nothing cut all that can be cut; those that cost a little cut as on real links.
COST_FREE = "0.000001us"
COSTS = {COST_FREE: "2,3,4", "0.001us": "2"}


class Sharding(ToolTest):
    def model(self, name):
        path = self.folder / f"{name.replace(' ', '_')}.onnx"
        if not path.exists():
            onnx.save(NETS[name](), path)
        return path

    def explain(self, name, *flags):
        path = self.model(name)
        port = onnx.load(path).graph.input[0]
        dims = [str(dim.dim_value) if dim.dim_value else f"[1..{3 + i}]" for i, dim in enumerate(port.type.tensor_type.shape.dim)]
        return self.json("explain", "sharding", path, "--shape", f"{port.name}:{'x'.join(dims)}", *flags)

    def cuts(self, option):
        return {row["name"]: row["cut"] for row in option["matrices"]}

    def check(self, name, cost, ranks, *flags):
        cuts = {}
        for option in self.explain(name, "--tp", ranks, "--check", "--all-reduce", cost, *flags)["options"]:
            self.assertLess(option["difference"], TOLERANCE, (name, cost, option["tp"], option["differs"]))
            cuts[option["tp"]] = self.cuts(option)
        return cuts

    def test_ranks_equal_one(self):
        for name in NETS:
            for cost, ranks in COSTS.items():
                with self.subTest(name, cost=cost):
                    cuts = self.check(name, cost, ranks)
                    self.assertTrue({"column", "row", "expert"} & set(cuts[2].values()), cuts)

    def test_cuts_that_are_known(self):
        """Where messages cost a little: pairs of columns and rows, with one sum behind them."""
        expected = {
            "encoder": ({"layer.*.query.product": "column", "layer.*.value.product": "column", "layer.*.output.product": "row", "layer.*.up.product": "column", "layer.*.down.product": "row"}, 4),
            "fused parts": ({"qkv.product": "column", "output.product": "row"}, 1),
            "fused dim": ({"qkv.product": "column", "output.product": "row"}, 1),
            "fused heads": ({"qkv.product": "column", "output.product": "row"}, 1),
            "gated in one": ({"gate_up": "column", "down": "row"}, 1),
            "parallel": ({"output.product": "row", "down.product": "row"}, 1),
            "experts": ({"up.product": "expert", "down.product": "expert"}, 1),
            "residual with biases": ({"*.a": "column", "*.c": "row"}, 2),
            "depthwise": ({"widen": "column", "own": "column", "narrow": "row"}, 1),
        }  # fmt: skip
        for name, (cuts, sums) in expected.items():
            with self.subTest(name):
                option = self.explain(name, "--tp", "2", "--all-reduce", "0.001us")["options"][0]
                self.assertLessEqual(cuts.items(), self.cuts(option).items())
                self.assertEqual(sums, sum(each["count"] for each in option["runs"][0]["messages"] if each["kind"] == "all-reduce"))

    def test_programs_of_torch(self):
        for name in ("layers", "quantized", "transforms"):
            for option in self.json("explain", "sharding", SOURCE / f"test/data/pt2/{name}.pt2", "--tp", "2,4", "--check", "--all-reduce", COST_FREE)["options"]:
                with self.subTest(name, tp=option["tp"]):
                    self.assertLess(option["difference"], TOLERANCE)
                    self.assertTrue({"column", "row"} & set(self.cuts(option).values()))

    def test_exported_models(self):
        """One sum for attention and one for the feed-forward part of each layer, whoever exported the model; T5's small heads are gathered, for less than a sum of 256 KiB."""
        for name, sums in (("bert_base.dynamo", 24), ("bert_base.torchscript", 24), ("t5_encoder.torchscript", 6), ("vit_b16.dynamo", 24)):
            option = self.json("explain", "sharding", SOURCE / f"models/graphs/{name}.onnx", "--tp", "2", "--all-reduce", "0.001us")["options"][0]
            with self.subTest(name):
                self.assertEqual(sums, sum(each["count"] for each in option["runs"][0]["messages"] if each["kind"] == "all-reduce"))
                self.assertTrue(option["exhaustive"])
        lstm = self.json("explain", "sharding", SOURCE / "models/graphs/lstm.torchscript.onnx", "--tp", "2")["options"][0]
        self.assertEqual(["recurrence"], lstm["without_rule"])
        self.assertIn("for want of a rule: recurrence", self.succeed("explain", "sharding", SOURCE / "models/graphs/lstm.torchscript.onnx", "--tp", "2").stdout)

    def test_pins(self):
        option = self.explain("gated", "--tp", "2", "--check", "--pin", "gate=row", "--pin", "up=column", "--pin", "d*=replicate")["options"][0]
        self.assertEqual({"gate": "row", "up": "column", "down": "replicate"}, self.cuts(option))
        self.assertLess(option["difference"], TOLERANCE)

    def test_pins_that_are_refused(self):
        path = self.model("encoder of 5 heads")
        for pin, word in (("layer.0.up.product=column", "48 x 60"), ("layer.0.up=column", "no matrix"), ("up", "NODE=column"), ("x=diagonal", "NODE=column")):
            with self.subTest(pin):
                done = self.refuse(2, "TN0105", "explain", "sharding", path, "--tp", "7", "--pin", pin)
                self.assertIn(word, done.stderr)
        # What is tried next holds.
        self.succeed("explain", "sharding", path, "--tp", "4", "--pin", "layer.0.up.product=column")
        self.succeed("explain", "sharding", path, "--tp", "7", "--pin", "layer.0.up.product=replicate")

    def test_heads_that_do_not_divide(self):
        cuts = self.cuts(self.explain("encoder of 5 heads", "--tp", "3", "--all-reduce", "0.001us")["options"][0])
        self.assertNotEqual("column", cuts["layer.*.query.product"])
        self.assertEqual(("column", "row"), tuple(cuts[f"layer.*.{part}.product"] for part in ("up", "down")))

    def test_a_model_that_is_too_small_is_not_worth_it(self):
        option = self.explain("encoder", "--tp", "2")["options"][0]
        self.assertFalse(option["worth_it"])
        self.assertEqual({"replicate"}, set(self.cuts(option).values()))
        self.assertIn("not worth it", self.succeed("explain", "sharding", self.model("encoder"), "--tp", "2").stdout)

    def test_bad_flags(self):
        path = self.model("gated")
        self.refuse(2, "TN0105", "explain", "sharding", path, "--all-reduce", "fast")
        self.refuse(2, "TN0105", "explain", "sharding", path, "--tp", "0")
        self.refuse(2, "TN0105", "explain", "sharding", path, "--precision", "int8")
        self.refuse(2, "TN0105", "explain", "sharding", path, "up")
        self.refuse(2, "TN0105", "explain", "fusion", path, "--tp", "2")


if __name__ == "__main__":
    unittest.main()
