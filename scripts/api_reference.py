#!/usr/bin/env python3
"""Renders docs/api from the docstrings of the Python package and the comments of the C headers.

    scripts/api_reference.py            writes the pages
    scripts/api_reference.py --check    exits with 1 if they are not what it would write

What is public is what `__all__` of a module lists, or what has no underscore. Relies on headers in which a comment stands
before what it describes, and on blank lines between declarations without one.
"""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bindings/python/tenon"
MODULES = {"tenon": "__init__.py", "tenon.drift": "drift.py", "tenon.mlflow": "mlflow.py", "tenon.passes": "passes.py", "tenon.pipeline": "pipeline/__init__.py", "tenon.prune": "prune.py", "tenon.ray_serve": "ray_serve.py", "tenon.registry": "registry.py", "tenon.torch": "torch.py",
           "tenon.compare": "compare/__init__.py"}  # fmt: skip
HEADERS = ["tenon.h", "generate.h", "compiler.h", "graph.h"]
NOTE = "<!-- Written by scripts/api_reference.py. -->\n"


def parsed(path):
    return ast.parse(path.read_text())


def exported(module):
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    definitions = (ast.FunctionDef, ast.ClassDef)
    return [node.name for node in module.body if isinstance(node, definitions) and not node.name.startswith("_")]


def sources_of(module):
    """{name: file} of what a module imports from its neighbours, those for type checkers included."""
    return {
        alias.asname or alias.name: f"{node.module}.py"
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        for alias in node.names
    }


def definition(module, name, folder):
    """Its node in the module, or in the one from which it comes."""
    for node in module.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return node
    return definition(parsed(folder / sources_of(module)[name]), name, folder)


def documentation(node):
    """The docstring as Markdown: what it says of an argument becomes an item of a list, with the deeper lines below it."""
    lines = []
    for line in (ast.get_docstring(node) or "").splitlines():
        entry = re.match(r"([a-z]\w*(?:, \w+)*): ", line)
        goes_on = line.startswith("    ") and lines and lines[-1].startswith("- ")
        if goes_on:
            lines[-1] += " " + line.strip()
        else:
            lines.append(f"- `{entry[1]}`: {line[entry.end():]}" if entry else line)
    return "\n".join(lines).strip() + "\n"


def signature(function):
    arguments = ast.unparse(function.args)
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    decorators = {ast.unparse(decorator) for decorator in function.decorator_list}
    if "property" in decorators:
        return f"{function.name}{returns.replace(' ->', ':')}"
    arguments = re.sub(r"^self(, )?", "", arguments)
    return f"{function.name}({arguments}){returns}"


def render_class(node):
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    members = [item for item in node.body if isinstance(item, ast.FunctionDef) and (not item.name.startswith("_") or item.name == "__call__")]
    text = f"### class `{node.name}{f'({bases})' if bases else ''}`\n\n{documentation(node)}"
    for member in members:
        text += f"\n#### `{signature(member)}`\n\n{documentation(member)}"
    return text


def python_page():
    text = "# Python\n\n" + NOTE
    for name, file in MODULES.items():
        path = PACKAGE / file
        module = parsed(path)
        text += f"\n## {name}\n\n{documentation(module)}"
        for member in exported(module):
            if f"{name}.{member}" in MODULES:  # has a part of its own
                continue
            node = definition(module, member, path.parent)
            text += "\n" + (render_class(node) if isinstance(node, ast.ClassDef) else f"### `{signature(node)}`\n\n{documentation(node)}")
    return tidy(text)


def comment_text(comment):
    """The words of a C comment, its lines as they are."""
    lines = [re.sub(r"^\s*\*? ?", "", line) for line in comment[2:-2].splitlines()]
    return "\n".join(line.rstrip() for line in lines).strip()


def declarations(header):
    """Pairs of a comment and the declarations up to the next one, without what is for the preprocessor."""
    text = re.sub(r"^#.*(\\\n.*)*\n", "", header, flags=re.M).replace("extern \"C\" {\n", "")
    text = re.sub(r"TENON_((COMPILER|GENERATE)_)?API ", "", text).rstrip().removesuffix("\n}")
    for block in re.split(r"\n(?=/\*|typedef)", text):
        comment = re.match(r"/\*.*?\*/", block, re.S)
        code = block[comment.end() :] if comment else block
        yield comment_text(comment[0]) if comment else "", code.strip()


def c_page():
    text = "# C\n\n" + NOTE
    for name in HEADERS:
        text += f"\n## tenon/{name}\n"
        for comment, code in declarations((ROOT / "include/tenon" / name).read_text()):
            text += f"\n{comment}\n" if comment and not code else ""
            if code:
                text += f"\n```c\n{code}\n```\n" + (f"\n{comment}\n" if comment else "")
    return tidy(text)


def tidy(text):
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.splitlines())) + "\n"


def main():
    stale = []
    for path, page in ((ROOT / "docs/api/python.md", python_page()), (ROOT / "docs/api/c.md", c_page())):
        if not path.exists() or path.read_text() != page:
            stale.append(path)
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(page)
    if "--check" in sys.argv and stale:
        sys.exit(f"{', '.join(str(path.relative_to(ROOT)) for path in stale)}: write them anew with scripts/api_reference.py")


if __name__ == "__main__":
    main()
