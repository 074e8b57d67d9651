"""`tenon compile --pp`: engines whose stages run one behind the other on a CPU give the bits of one stage, and each reads its own weights alone."""

import unittest

from ranks import ALL, TOLERANCE, RanksTest
from sharding_nets import NETS

SOME = ("encoder", "residual with biases")
PINS = ("--pin=layer.*.up.product=column", "--pin=layer.*.down.product=row")


class Stages(RanksTest):
    def stages(self, path, stages, ranks=1, *flags):
        return self.compile(path, ranks, "--pp", stages, *flags).rename(self.folder / f"{path.stem}.{ranks}.{stages}.tenon")

    def test_stages_equal_one(self):
        for name in NETS if ALL else SOME:
            path = self.model(name)
            one = self.outputs(self.compile(path, 1))
            for stages in (2, 3, 4) if ALL else (2,):
                with self.subTest(name, stages=stages):
                    engine = self.stages(path, stages)
                    passed = self.collectives(engine)
                    self.assertEqual({"send-receive"}, {row["exchange"] for row in passed})
                    self.assertEqual({(stage, stage + 1) for stage in range(stages - 1)}, {tuple(row["stages"]) for row in passed})
                    difference = self.difference(one, self.outputs(engine, "--threads", "4"))
                    self.assertEqual(0, difference)
                    told = self.json("inspect", engine)
                    self.assertEqual((stages, stages), (told["ranks"], told["stages"]))
                    own = told["weights_bytes_of_stages"]
                    self.assertLess(max(own), 0.9 * told["weights_bytes"])
                    if ALL:
                        print(f"{name}, {stages} stages: {len(passed)} values pass, weights {own}", flush=True)

    def test_stages_of_ranks(self):
        """Two stages of two ranks have the bits of two ranks."""
        path = self.model("encoder")
        two = self.outputs(self.compile(path, 2))
        engine = self.stages(path, 2, 2)
        self.assertEqual(0, self.difference(two, self.outputs(engine)))
        self.assertIn("ranks   4 in 2 stages, of which each rank reads", self.succeed("inspect", engine).stdout)
        self.succeed("check", engine)
        self.assertIn("send_receive", self.succeed("profile", engine, "--seconds", "0.2").stdout)
        self.assertLess(self.difference(self.outputs(self.compile(path, 1)), two), TOLERANCE)

    def test_on_gpus(self):
        """Engines of all nets for GPUs have stages, in FP32 and in 16 bits, and of ranks too."""
        cases = [(name, precision, 1) for name in NETS for precision in ("keep", "fp16")] + [("encoder", "bf16", 2)]
        for name, precision, ranks in cases:
            with self.subTest(name, precision=precision, ranks=ranks):
                engine = self.folder / "gpu.tenon"
                self.succeed("compile", self.model(name), "-o", engine, "--target", "cuda:h200", "--precision", precision, "--pp", "2", "--tp", str(ranks),
                             *PINS[: 2 * (ranks - 1)], "--force")
                passed = [row["stages"] for row in self.collectives(engine) if row["exchange"] == "send-receive"]
                self.assertEqual({(0, 1)}, set(map(tuple, passed)))
                told = self.json("inspect", engine)
                self.assertEqual((2 * ranks, 2), (told["ranks"], told["stages"]))

    def test_refusals(self):
        path = self.model("gated")
        for flags, word in ((("--pp", "40"), "does not have 40 parts"), (("--tp", "16", "--pp", "16"), "at most 64 ranks"), (("--pp", "65"), "65")):
            done = self.refuse(2, "TN0105", "compile", path, "--target", "cpu:native", *flags)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
