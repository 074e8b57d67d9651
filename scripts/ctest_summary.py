"""Prints the slowest tests of a run of ctest and the seconds by label: `ctest_summary.py BUILD_FOLDER JUNIT_FILE`.

The seconds are those of the file that `ctest --output-junit` wrote, the labels those that ctest lists for the build folder, since that file has none. A test with several
labels counts for each; what runs side by side is summed, so a sum may be more than the run took.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import xml.etree.ElementTree

SLOWEST = 20


def seconds_of(path):
    """{test: seconds} of the tests that ran."""
    cases = xml.etree.ElementTree.parse(path).getroot().iter("testcase")
    return {case.get("name"): float(case.get("time")) for case in cases if case.get("status") in ("run", "fail")}


def labels_of(listing):
    """{test: [label]} of what `ctest --show-only=json-v1` prints."""
    found = {}
    for test in json.loads(listing)["tests"]:
        found[test["name"]] = next((entry["value"] for entry in test.get("properties", []) if entry["name"] == "LABELS"), [])
    return found


def summary(seconds, labels):
    """The lines: the slowest tests, and a line a label, the longest first."""
    sums, counts = collections.Counter(), collections.Counter()
    for test, taken in seconds.items():
        for label in labels.get(test) or ["without label"]:
            sums[label] += taken
            counts[label] += 1
    slowest = sorted(seconds.items(), key=lambda entry: (-entry[1], entry[0]))[:SLOWEST]
    lines = ["", f"slowest {len(slowest)} of {len(seconds)} tests, seconds:"]
    lines += [f"{taken:9.1f}  {test}" for test, taken in slowest]
    lines += ["", "seconds by label, of tests that run side by side:"]
    lines += [f"{sums[label]:9.1f}  {label} ({counts[label]})" for label in sorted(sums, key=lambda label: (-sums[label], label))]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("junit", type=pathlib.Path)
    flags = parser.parse_args()
    if not flags.junit.exists():
        print("ctest_summary: ctest wrote no times")
        return
    listing = subprocess.run(["ctest", "--test-dir", flags.build, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
    print("\n".join(summary(seconds_of(flags.junit), labels_of(listing))))


if __name__ == "__main__":
    main()
