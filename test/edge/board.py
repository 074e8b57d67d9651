"""Builds folders of `tenon compile --target c` for this machine and for a Cortex-M4 under QEMU, and runs inputs through them."""

import pathlib
import shutil
import subprocess

import numpy as np

HERE = pathlib.Path(__file__).parent
STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
GCC = shutil.which("gcc") or shutil.which("clang-22")
CLANG = shutil.which("clang-22")
QEMU = shutil.which("qemu-system-arm")
M4_MISSING = next((f"there is no {name}, which a Cortex-M4 needs" for name, found in [("clang", CLANG), ("ld.lld", shutil.which("ld.lld-22") or shutil.which("ld.lld")), ("qemu-system-arm", QEMU)] if not found), None)
M4 = ["--target=thumbv7em-none-eabi", "-mcpu=cortex-m4", "-mfloat-abi=soft", "-ffreestanding", "-nostdlib", "-fuse-ld=lld", "-Wl,--gc-sections"]

# Runs the inputs, then the self-test, and prints each output's bytes and what the self-test says. The arena lies between two guards.
PROGRAM = """
#include "{name}.h"
{includes}
static const int8_t inputs[{count}][{bytes}] = {{{values}}};
static struct {{ uint32_t before[4]; uint32_t arena[({capital}_ARENA_BYTES + 3) / 4]; uint32_t after[4]; }} memory;
int main(void) {{
  static const char digits[] = "0123456789abcdef";
  int8_t *bytes = (int8_t *)memory.arena;
  static char line[2 * {capital}_OUTPUT_BYTES + 2];
  {begin}
  for (int i = 0; i < {count}; ++i) {{
    for (int k = 0; k < {capital}_INPUT_BYTES; ++k) bytes[{capital}_INPUT_OFFSET + k] = inputs[i][k];
    {name}_run(memory.arena);
    for (int k = 0; k < {capital}_OUTPUT_BYTES; ++k) {{
      uint8_t byte = (uint8_t)bytes[{capital}_OUTPUT_OFFSET + k];
      line[2 * k] = digits[byte >> 4];
      line[2 * k + 1] = digits[byte & 15];
    }}
    line[2 * {capital}_OUTPUT_BYTES] = '\\n';
    say(line);
  }}
  for (int k = 0; k < 4; ++k) if (memory.before[k] || memory.after[k]) return 98;
  int layer = 0;
  if ({name}_selftest(memory.arena, &layer)) {{
    say({name}_layer_name(layer));
    return 1;
  }}
  return 0;
}}
"""
HOST_SAY = "#include <stdio.h>\nstatic void say(const char *text) { fputs(text, stdout); }"


def write_program(folder, name, inputs, on_board):
    values = ",\n".join("{" + ",".join(map(str, row.ravel())) + "}" for row in inputs)
    text = PROGRAM.format(name=name, capital=name.upper(), includes="void say(const char *text);" if on_board else HOST_SAY, begin=f"{name}_reset(memory.arena);" if f"{name}_reset(" in (folder / f"{name}.h").read_text() else "", count=len(inputs), bytes=inputs[0].size, values=values)
    path = folder / ("board.c" if on_board else "host.c")
    path.write_text(text)
    return path


def sources(folder, name):
    return [folder / f"{name}.c", folder / f"{name}_weights.c", folder / f"{name}_selftest.c"]


def outcome(command):
    """(exit code, one array an input, what the self-test said)"""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    lines = (done.stdout + done.stderr).splitlines() # QEMU says on stderr what a board says
    whole = [line for line in lines if line and len(line) % 2 == 0 and set(line) <= set("0123456789abcdef")]
    return done.returncode, [np.frombuffer(bytes.fromhex(line), np.int8) for line in whole], lines[-1] if lines else ""


def run_host(folder, name, inputs):
    return run_built(folder, name, inputs, [GCC, "-O2"])


def run_checked(folder, name, inputs):
    """With the sanitizers, which see a read or write beside the arena and its guards, and arithmetic that C does not define."""
    return run_built(folder, name, inputs, [CLANG, "-O0", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"])


def run_built(folder, name, inputs, compiler):
    program = write_program(folder, name, inputs, False)
    subprocess.run([*compiler, *STRICT, "-o", folder / "host", program, *sources(folder, name)], check=True)
    return outcome([folder / "host"])


def run_m4(folder, name, inputs):
    program = write_program(folder, name, inputs, True)
    elf = folder / "board.elf"
    subprocess.run([CLANG, *STRICT, *M4, "-O2", f"-Wl,-T,{HERE / 'board.ld'}", "-o", elf, HERE / "start.c", program, *sources(folder, name)], check=True)
    return outcome([QEMU, "-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel", elf])
