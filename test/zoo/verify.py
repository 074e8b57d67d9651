"""`compile --verify` holds every pass over real models to the reference, in the time that it promises.

Relies on test/unit/pipeline for the proof that a wrong pass is caught and named; here no right pass may be refused.
"""

import sys
import time
import unittest

import expectations

sys.path.insert(0, str(expectations.SOURCE / "test/e2e"))

from tool import ToolTest  # noqa: E402

PROMISED_SECONDS = 180


class Verify(ToolTest):
    def hold(self, name):
        start = time.monotonic()
        self.succeed("compile", expectations.GRAPHS[name], "-o", "x.tenon", "--no-cache", "--verify", "--quiet")
        self.assertLess(time.monotonic() - start, PROMISED_SECONDS)

    def test_bert_base(self):
        self.hold("bert_base.dynamo")

    def test_mobilenet(self):
        self.hold("mobilenet_v2.torchscript")

    def test_cnn(self):
        self.hold("fashion_cnn")


if __name__ == "__main__":
    unittest.main()
