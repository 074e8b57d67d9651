"""What scripts/test_gpu.py makes of compute-sanitizer's words: held against a stand-in that says what it is told to.

Relies on the words of compute-sanitizer 2025 as a run on an H200 printed them: one summary for all processes.
"""

import argparse
import importlib.util
import os
import pathlib
import tempfile
import unittest
import unittest.mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/test_gpu.py"
SPEC = importlib.util.spec_from_file_location("test_gpu", SCRIPT)
test_gpu = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(test_gpu)

# What it prints depends on its tool and on whether the faults or the operator table run.
STAND_IN = """#!/bin/sh
case "$*" in *faults*) cat "$(dirname "$0")/faults";; *) cat "$(dirname "$0")/ops";; esac
"""
ERRORS = "========= ERROR SUMMARY: {} errors\n"
HAZARDS = "========= RACECHECK SUMMARY: {} hazards displayed ({} errors, 0 warnings)\n"


class Sanitizing(unittest.TestCase):
    def verdict(self, faults, ops):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            tool = folder / "compute-sanitizer"
            tool.write_text(STAND_IN)
            tool.chmod(0o755)
            (folder / "faults").write_text(faults)
            (folder / "ops").write_text(ops)
            options = argparse.Namespace(tools="memcheck", cells="", seconds=0, batch=20, jobs=1, timeout=1, target="cuda:sm_90", bin=folder,
                                         reports=folder)
            with unittest.mock.patch.dict(os.environ, {"PATH": f"{name}:{os.environ['PATH']}"}):
                return test_gpu.sanitizer(options)

    def test_passes_when_the_fault_is_seen_and_the_table_is_clean(self):
        table = ERRORS.format(0) + "pass  a\n40 cases at sm_90: 40 pass, 0 fail, 0 unsupported\n"
        self.assertEqual(0, self.verdict(ERRORS.format(75), table)[0])
        self.assertEqual(0, self.verdict(HAZARDS.format(1, 1), table.replace("ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards"))[0])

    def test_fails_when_the_fault_is_not_seen(self):
        table = ERRORS.format(0) + "20 cases at sm_90: 20 pass, 0 fail, 0 unsupported\n"
        for faults in ("", ERRORS.format(0), HAZARDS.format(0, 0), "conformance: cannot start\n"):
            self.assertEqual(1, self.verdict(faults, table)[0], faults)

    def test_fails_when_the_table_is_not_clean_or_was_not_watched(self):
        end = "40 cases at sm_90: 40 pass, 0 fail, 0 unsupported\n"
        for table in (ERRORS.format(0) + ERRORS.format(1) + end, HAZARDS.format(1, 1) + end, ERRORS.format(0), end, "",
                      ERRORS.format(0) + end.replace("40 pass", "30 pass").replace("unsupported", "unsupported, 10 not run")):
            self.assertEqual(1, self.verdict(ERRORS.format(1), table)[0], table)


if __name__ == "__main__":
    unittest.main()
