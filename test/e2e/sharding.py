"""`tenon explain sharding`: all ranks of a cut graph equal one rank, pins hold or are refused, and figures follow from shapes."""

import unittest

import onnx
from sharding_nets import NETS
from tool import ToolTest

TOLERANCE = 1e-9  # of the largest element, in float64
# Messages that cost nothing cut all that can be cut; those that cost a little cut as on real links.
COSTS = {"0.000001us": "2,3,4", "0.001us": "2"}


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


if __name__ == "__main__":
    unittest.main()
