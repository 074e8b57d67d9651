"""How long pushes take while gc removes many objects of a store that is slow: by hand, for the ledger.

    python test/registry/collect_load.py [OBJECTS [MILLISECONDS]]
"""

import hashlib
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import places  # noqa: E402
import shared  # noqa: E402

OBJECTS, PAUSE = (int(text) for text in (sys.argv[1:] + ["10000", "50"][len(sys.argv) - 1 :])[:2])


@unittest.skipIf(shared.missing(), shared.missing())
class Load(places.InServers, unittest.TestCase):
    def pushes(self, number):
        """So many, each with its own bytes; how long each took."""
        times = []
        for _ in range(number):
            (self.folder / "c.txt").write_text(str(time.monotonic()))
            start = time.monotonic()
            self.push("other", "c.txt")
            times.append(time.monotonic() - start)
        return times

    def test_pushes(self):
        kept = self.push("data")["hash"]
        for i in range(OBJECTS):
            (self.servers.store.bucket / self.name / hashlib.sha256(str(i).encode()).hexdigest()).write_bytes(b"x")
        self.servers.proxy.pause = PAUSE / 1000
        alone = self.pushes(10)
        start = time.monotonic()
        gc = subprocess.Popen(self.command("gc", "--json"), env=self.environment, stdout=subprocess.PIPE, text=True)
        beside = []
        while gc.poll() is None:
            beside += self.pushes(1)
        took = time.monotonic() - start
        self.assertIn(f'"deleted_files": {OBJECTS}', gc.stdout.read())
        self.servers.proxy.pause = 0
        self.assertTrue(self.stored(kept).exists())
        self.assertSound()
        for what, times in (("alone", alone), (f"beside a gc of {OBJECTS} objects, {took:.2f} s", beside)):
            print(f"{len(times)} pushes {what}: median {sorted(times)[len(times) // 2]:.3f} s, longest {max(times):.3f} s", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
