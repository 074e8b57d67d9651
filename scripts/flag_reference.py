#!/usr/bin/env python3
"""Writes what follows from the flags of the verbs: docs/reference/flags.md with its pages, and the flags that a pipeline's steps take.

    scripts/flag_reference.py            writes them
    scripts/flag_reference.py --check    exits with 1 if they are not what it would write

Relies on the program `tenon` in the folder of the build, $TENON_BUILD_DIR or build/dev, which says with `help --json` what each verb takes.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE, STEPS = ROOT / "docs/reference/flags.md", ROOT / "bindings/python/tenon/pipeline/_flags.py"
TENON = pathlib.Path(os.environ.get("TENON_BUILD_DIR", ROOT / "build/dev")) / "bin/tenon"
NOTE = "Written by scripts/flag_reference.py"
# The pages beside flags.md: the end of the name, the title, the verbs.
PAGES = {
    "compile": ("Flags to compile and inspect", ["doctor", "inspect", "check", "compile"]),
    "optimize": ("Flags to quantize, prune and tune", ["quantize", "prune", "tune", "cache"]),
    "run": ("Flags to run and measure", ["run", "bench", "profile"]),
    "compare": ("Flags to explain, compare and debug", ["explain", "accuracy", "compare", "debug"]),
    "registry": ("Flags of the registry and of signatures", ["registry", "sign", "verify"]),
    "language": ("Flags of language models", ["generate", "tokenize", "score"]),
    "serve": ("Flags to serve, and of help", ["serve", "help"]),
}


def verbs_of(tool):
    return json.loads(subprocess.run([tool, "help", "--json"], capture_output=True, check=True).stdout)["verbs"]


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def remarks(value):
    facts = ["required"] * value["required"] + ["may be repeated"] * (value["repeatable"] and "(repeat" not in value["help"])
    facts += [f"`{value['default']}` by default"] if value["default"] else []
    return cell(value["help"]) + (f" ({', '.join(facts)})" if facts else "")


def table(title, rows):
    return f"| {title} | value | |\n|---|---|---|\n" + "".join(rows) + "\n" if rows else ""


def row(names, value):
    kind = f"`{cell(value['value'])}`" if value["value"] else ""
    return f"| {', '.join(f'`{name}`' for name in names)} | {kind} | {remarks(value)} |\n"


def section(verb, common, level="##"):
    text = f"{level} tenon {verb['verb']}\n\n{verb['summary'][0].upper()}{cell(verb['summary'][1:])}.\n\n"
    text += "```\n" + "\n".join(verb["examples"]) + "\n```\n\n" if verb["examples"] else ""
    text += table("argument", [row([value["name"]], value) for value in verb["arguments"]])
    text += table("flag", [row(flag["names"], flag) for flag in verb["flags"] if flag not in common])
    return text + "".join(section(part, common, level + "#") for part in verb["verbs"])


def pages(verbs):
    """{path: text}: the first page with what all verbs take, and one for each group of verbs."""
    common = [flag for flag in verbs[0]["flags"] if all(flag in verb["flags"] for verb in verbs)]
    by_name = {verb["verb"]: verb for verb in verbs}
    assert sorted(by_name) == sorted(name for _, names in PAGES.values() for name in names), "PAGES has each verb once"
    first = f"# Flags\n\n<!-- {NOTE}. -->\n\nThese pages list the flags of each verb. The same in the shell:\n\n```\ntenon help compile\n```\n\n"
    first += "`tenon help --json` gives the flags as data, and `tenon help --completion bash` (zsh, fish) a completion script. [The command line](command-line.md) has the rules for all verbs.\n\n"
    first += "| page | verbs |\n|---|---|\n"
    first += "".join(f"| [{title}]({PAGE.stem}-{end}.md) | {', '.join(f'`{name}`' for name in names)} |\n" for end, (title, names) in PAGES.items())
    texts = {PAGE: first + "\n## Flags of each verb\n\n" + table("flag", [row(flag["names"], flag) for flag in common]).rstrip() + "\n"}
    for end, (title, names) in PAGES.items():
        text = f"# {title}\n\n<!-- {NOTE}. -->\n\n[Flags]({PAGE.name}) lists the other verbs, and the flags that each verb takes.\n\n"
        texts[PAGE.with_name(f"{PAGE.stem}-{end}.md")] = (text + "".join(section(by_name[name], common) for name in names)).rstrip() + "\n"
    return texts


def options(flag):
    """As options of a step, one for each name: NAME is a text, NAME* several, NAME! a switch, NAME:KIND another kind."""
    value = flag["value"] or ""
    ends = re.fullmatch(r"-?(\d+)\.\.(\d+)", value)
    is_integer = ends and len(ends[2]) <= 18  # digits that a pipeline reads as a whole number
    kind = "!" if flag["value"] is None else "*" if flag["repeatable"] else ":integer" if is_integer else ":number" if value.startswith("FLOAT") else ""
    return [name[2:].replace("-", "_") + kind for name in flag["names"] if name.startswith("--")]


def steps(verbs):
    lines = [f'    "{verb["verb"]}": "{" ".join(name for flag in verb["flags"] for name in options(flag))}",\n' for verb in verbs if not verb["verbs"]]
    text = f'"""The flags of the verbs as options of steps. {NOTE}.\n\nNAME is a text, NAME* several, NAME! a switch, NAME:KIND another kind of option.\n"""\n\n'
    return text + "FLAGS = {\n" + "".join(lines) + "}  # fmt: skip\n"


def main():
    verbs = verbs_of(TENON)
    stale = []
    for path, text in {**pages(verbs), STEPS: steps(verbs)}.items():
        if not path.exists() or path.read_text() != text:
            stale.append(path)
        if "--check" not in sys.argv:
            path.write_text(text)
    if "--check" in sys.argv and stale:
        sys.exit(f"{', '.join(str(path.relative_to(ROOT)) for path in stale)}: write them again with scripts/flag_reference.py")


if __name__ == "__main__":
    main()
