"""Builds folders of `tenon compile --target c`, and libraries of `--target elf`, for this machine and for the cores of boards under QEMU, and runs inputs through them."""

import collections
import pathlib
import shutil
import subprocess

import numpy as np

HERE = pathlib.Path(__file__).parent
STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
GCC = shutil.which("gcc") or shutil.which("clang-22")
CLANG = shutil.which("clang-22")
LLD = shutil.which("ld.lld-22") or shutil.which("ld.lld")
EMULATORS = HERE.parents[1] / ".qemu"

Core = collections.namedtuple("Core", "flags qemu machine flash ram")


def cortex(triple, cpu, machine, flash=(0, "4096K"), ram=(0x20000000, "2048K"), flags=()):
    flags = [f"--target={triple}-none-eabi", f"-mcpu={cpu}", *flags]
    return Core(flags, "qemu-system-arm", ["-M", machine, "-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel"], flash, ram)


def linux(triple, flags, qemu, cpu):
    return Core([f"--target={triple}", *flags, "-static"], qemu, ["-cpu", cpu], None, None)


# QEMU has one board with a Cortex-M0, of 16 KB; larger models run code for it on a Cortex-M3, whose instructions contain its own.
CORES = {
    "cortex-m0": cortex("thumbv6m", "cortex-m0", "microbit", (0, "256K"), (0x20000000, "16K")),
    "cortex-m0-large": cortex("thumbv6m", "cortex-m0", "mps2-an385"),
    "cortex-m4": cortex("thumbv7em", "cortex-m4", "mps2-an386", flags=["-mfloat-abi=soft"]),
    "cortex-m33": cortex("thumbv8m.main", "cortex-m33", "mps2-an505", (0x10000000, "4096K"), (0x38000000, "2048K"), ["-mfloat-abi=hard"]),
    "cortex-m55": cortex("thumbv8.1m.main", "cortex-m55", "mps3-an547", (0, "512K"), (0x20000000, "512K"), ["-mfloat-abi=hard"]),
    "rv32imac": linux("riscv32-unknown-elf", ["-march=rv32imac", "-mabi=ilp32", "-mcmodel=medany"], "qemu-riscv32", "rv32"),
    "rv64": linux("riscv64-unknown-elf", ["-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany"], "qemu-riscv64", "rv64"),
    "aarch64": linux("aarch64-linux-gnu", [], "qemu-aarch64", "cortex-a53"),
}


def emulator(name):
    own = EMULATORS / name
    return str(own) if own.exists() else shutil.which(name)


def missing(core):
    """Why nothing runs on a core here, or None."""
    needs = [("clang-22", CLANG), ("ld.lld", LLD), (CORES[core].qemu, emulator(CORES[core].qemu))]
    return next((f"there is no {name}, which {core} needs" for name, found in needs if not found), None)


# Runs the inputs, then the self-test, and prints each output's bytes, how much of a painted stack the first run took, and what the self-test says. The
# arena lies between two guards.
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
    PAINT
    {name}_run(memory.arena);
    MEASURE
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
HOST_SAY = "#include <stdio.h>\n#define PAINT\n#define MEASURE\nstatic void say(const char *text) { fputs(text, stdout); }"


BOARD_SAY = """void say(const char *text);
#if defined(__riscv)
#define STACK "mv %0, sp"
#else
#define STACK "mov %0, sp"
#endif
#define PAINTED 4096
#define PAINT volatile uint8_t *stack; __asm__ volatile(STACK : "=r"(stack)); for (int k = 1; k < PAINTED; ++k) stack[-k] = 0xa5;
#define MEASURE if (i == 0) { int used = PAINTED - 1; while (used > 0 && stack[-used] == 0xa5) --used; tell(used); }
static void tell(int number) {
  char text[] = "stack 0x0000\\n";
  for (int at = 11; at > 7; --at, number >>= 4) text[at] = "0123456789abcdef"[number & 15];
  say(text);
}
"""


def write_program(folder, name, inputs, on_board):
    values = ",\n".join("{" + ",".join(map(str, row.ravel())) + "}" for row in inputs)
    begin = f"{name}_reset(memory.arena);" if f"{name}_reset(" in (folder / f"{name}.h").read_text() else ""
    text = PROGRAM.format(name=name, capital=name.upper(), includes=BOARD_SAY if on_board else HOST_SAY, begin=begin, count=len(inputs), bytes=inputs[0].size, values=values)
    path = folder / ("board.c" if on_board else "host.c")
    path.write_text(text)
    return path


def sources(folder, name):
    return [folder / f"{name}.c", folder / f"{name}_weights.c", folder / f"{name}_selftest.c"]


def lines_of(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    return done.returncode, (done.stdout + done.stderr).splitlines() # QEMU says on stderr what a board says


def outputs_in(lines):
    whole = [line for line in lines if line and len(line) % 2 == 0 and set(line) <= set("0123456789abcdef")]
    return [np.frombuffer(bytes.fromhex(line), np.int8) for line in whole]


def outcome(command):
    """(exit code, one array an input, the last line, which is what a self-test or a fault said)"""
    code, lines = lines_of(command)
    return code, outputs_in(lines), lines[-1] if lines else ""


def run_host(folder, name, inputs):
    return run_built(folder, name, inputs, [GCC, "-O2"])


def run_checked(folder, name, inputs):
    """With the sanitizers, which see a read or write beside the arena and its guards, and arithmetic that C does not define."""
    return run_built(folder, name, inputs, [CLANG, "-O0", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"])


def run_built(folder, name, inputs, compiler):
    program = write_program(folder, name, inputs, False)
    subprocess.run([*compiler, *STRICT, "-o", folder / "host", program, *sources(folder, name)], check=True)
    return outcome([folder / "host"])


def build(core, folder, name, program, code):
    """The program for a core: code is the folder's files or a library."""
    at = CORES[core]
    elf = folder / f"{core}.elf"
    link = ["-ffreestanding", "-nostdlib", "-fuse-ld=lld", "-Wl,--gc-sections"]
    if at.flash:
        sizes = [f"-Wl,--defsym={part}_{what}={value}" for part, sides in (("flash", at.flash), ("ram", at.ram)) for what, value in zip(("base", "size"), (sides[0], int(sides[1][:-1]) * 1024), strict=True)]
        link += [f"-Wl,-T,{HERE / 'board.ld'}", *sizes]
    start = HERE / ("start.c" if at.flash else "start_linux.c")
    subprocess.run([CLANG, *STRICT, *at.flags, "-O2", *link, "-I", folder, "-I", HERE.parents[1], "-o", elf, start, program, *code], check=True)
    return elf


def command(core, elf, plugin=None):
    at = CORES[core]
    return [emulator(at.qemu), *(["-plugin", plugin] if plugin else []), *at.machine, elf]


def run_board(core, folder, name, inputs):
    return outcome(command(core, build(core, folder, name, write_program(folder, name, inputs, True), sources(folder, name))))


M4_MISSING = missing("cortex-m4")


def run_m4(folder, name, inputs):
    return run_board("cortex-m4", folder, name, inputs)


def library(folder, name):
    return [folder / f"lib{name}.a"]


def run_library(core, folder, name, inputs):
    """What run_board gives, and the bytes of stack of the first run."""
    program = write_program(folder, name, inputs, True)
    code, lines = lines_of(command(core, build(core, folder, name, program, library(folder, name))))
    stack = next((int(line.split()[1], 16) for line in lines if line.startswith("stack ")), None)
    return code, outputs_in(lines), lines[-1] if lines else "", stack
