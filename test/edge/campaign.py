"""Measurements by hand, not a test of the suite: `campaign.py count CORE FOLDER…` counts the instructions of each layer of folders of `tenon compile
--target c` under QEMU, `campaign.py bytes INPUTS FOLDER…` compares what all cores make of inputs from a seed with this machine. Needs QEMU of a
distribution, whose user mode takes plugins."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

import board

COUNT = """
#include "{name}.h"
void say(const char *text);
static uint32_t arena[({capital}_ARENA_BYTES + 3) / 4];
int main(void) {{
  {name}_run(arena);
  for (int i = 0; i < {times}; ++i) {name}_layer(arena, {layer});
  return 0;
}}
"""

# Inputs and hashes of outputs, so that a thousand of them need no memory.
BYTES = """
#include "{name}.h"
{say}
static uint32_t arena[({capital}_ARENA_BYTES + 3) / 4];
int main(void) {{
  uint32_t state = {seed}, hash = 2166136261u;
  uint8_t *bytes = (uint8_t *)arena;
  for (int i = 0; i < {count}; ++i) {{
    for (int k = 0; k < {capital}_INPUT_BYTES; ++k) {{
      state = state * 1664525u + 1013904223u;
      bytes[{capital}_INPUT_OFFSET + k] = (uint8_t)(state >> 24);
    }}
    {name}_run(arena);
    for (int k = 0; k < {capital}_OUTPUT_BYTES; ++k) hash = (hash ^ bytes[{capital}_OUTPUT_OFFSET + k]) * 16777619u;
    if (i % 100 == 99) {{
      char line[] = "hash 00000000\\n";
      for (int k = 0; k < 8; ++k) line[5 + k] = "0123456789abcdef"[hash >> (28 - 4 * k) & 15];
      say(line);
    }}
  }}
  return 0;
}}
"""


def write(path, text):
    path.write_text(text)
    return path


def plugin(folder):
    made = folder / "count.so"
    subprocess.run([board.CLANG, "-O2", "-shared", "-fPIC", "-o", made, board.HERE / "count.c"], check=True)
    return made.resolve()


def count_layers(core, folder):
    """A list of (layer of the report, instructions)."""
    name = folder.name
    report = json.loads((folder / f"{name}.json").read_text())
    counter = plugin(folder)
    at = board.CORES[core]
    counts = []
    for index, layer in enumerate(report["layers"]):
        both = []
        for times in (0, 1):
            program = write(folder / "count_main.c", COUNT.format(name=name, capital=name.upper(), times=times, layer=index))
            elf = board.build(core, folder, name, program, board.sources(folder, name)[:2])
            done = subprocess.run([shutil.which(at.qemu), "-plugin", counter, *at.machine, elf], capture_output=True, text=True, check=True)
            both.append(int(re.search(r"instructions (\d+)", done.stderr)[1]))
        counts.append((layer, both[1] - both[0]))
    return counts


def hashes(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    return done.returncode, re.findall(r"hash (\w+)", done.stdout + done.stderr)


def compare(folder, inputs):
    name = folder.name
    code = board.sources(folder, name)[:2]
    parts = dict(name=name, capital=name.upper(), seed=7, count=inputs)
    host = write(folder / "bytes_host.c", BYTES.format(say=board.HOST_SAY.replace("#define PAINT\n#define MEASURE\n", ""), **parts))
    subprocess.run([board.GCC, "-O2", "-I", folder, "-o", folder / "bytes_host", host, *code], check=True)
    expected = hashes([folder / "bytes_host"])
    assert expected[0] == 0 and len(expected[1]) == inputs // 100
    print(f"{name} {inputs} inputs, this machine: {expected[1][-1]}", flush=True)
    for core in board.CORES:
        if core == "cortex-m0" or board.missing(core):
            continue
        start = time.time()
        elf = board.build(core, folder, name, write(folder / "bytes_board.c", BYTES.format(say="void say(const char *text);", **parts)), code)
        got = hashes(board.command(core, elf))
        print(f"{name} {core}: {'the same' if got == expected else f'DIFFERENT {got}'}, {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "count":
        for path in map(pathlib.Path, sys.argv[3:]):
            counted = count_layers(sys.argv[2], path)
            print(json.dumps({"net": path.name, "core": sys.argv[2], "instructions": sum(n for _, n in counted), "layers": [[layer["node"], layer["kernel"], layer["products"], layer["bytes"], n] for layer, n in counted]}))
    else:
        for path in map(pathlib.Path, sys.argv[3:]):
            compare(path, int(sys.argv[2]))
