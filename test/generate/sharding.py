"""Cuts of language models for several GPUs: what is predicted, and all ranks on the reference beside one.

Messages are taken to cost next to nothing, so that models this small are cut at all.
"""

import json
import unittest

import folders
import models
from models import Model, Type
from tool import ToolTest

TOLERANCE = 1e-9  # of the largest element, in float64
FREE = ("--all-reduce", "0.000001us")
FILES = {
    "q8": Model("llama", types=[Type.Q8_0], heads=8, key_heads=4, head=32, pairs=True),
    "q4": Model("llama", types=[Type.Q4_0], heads=8, key_heads=2, head=32, pairs=True),
    "one key head": Model("llama", heads=4, key_heads=1, head=16, width=64, inner=96, pairs=True),
}


class Sharding(ToolTest):
    write = folders.Folders.write

    def explain(self, model, *flags):
        return json.loads(self.tool("explain", "sharding", model, "--json", *flags))

    def check(self, model, tp, *flags):
        """All ranks equal one; gives the cuts of each number of ranks."""
        cuts = {}
        for option in self.explain(model, "--tp", tp, "--check", *FREE, *flags)["options"]:
            self.assertLess(option["difference"], TOLERANCE, (model, option["tp"], option["differs"]))
            cuts[option["tp"]] = {row["name"]: row["cut"] for row in option["matrices"]}
        return cuts

    def test_families(self):
        for name in folders.MODELS:
            with self.subTest(name):
                path, _ = self.write(name, **folders.FORMS[name])
                cuts = self.check(path, "2,3,4")
                self.assertLessEqual({"column", "row"}, set(cuts[2].values()), cuts)
                self.assertLessEqual({"column", "row"}, set(cuts[4].values()), cuts)
                self.check(path, "2,4", "--pages", "5")

    def test_files(self):
        for name, model in FILES.items():
            with self.subTest(name):
                path = self.folder / f"{name}.gguf"
                models.write(model, path)
                cuts = self.check(path, "2,4")
                self.assertLessEqual({"column", "row"}, set(cuts[2].values()), cuts)


if __name__ == "__main__":
    unittest.main()
