"""`compile --verify` holds every pass over real models to the reference.

Relies on test/unit/pipeline for the proof that a wrong pass is caught and named; here no right pass may be refused.
"""

import sys
import unittest

import expectations

sys.path.insert(0, str(expectations.SOURCE / "test/e2e"))

from tool import ToolTest  # noqa: E402


class Verify(ToolTest):
    def hold(self, name):
        self.succeed("compile", expectations.GRAPHS[name], "-o", "x.tenon", "--no-cache", "--verify", "--quiet")

    def test_bert_base(self):
        self.hold("bert_base.dynamo")

    def test_mobilenet(self):
        self.hold("mobilenet_v2.torchscript")

    def test_cnn(self):
        self.hold("fashion_cnn")


if __name__ == "__main__":
    unittest.main()
