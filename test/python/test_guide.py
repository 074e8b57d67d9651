"""The tutorials and guides of docs run as they stand: `test_guide.py PAGE...`, one folder a page. Runs with a Python that has what the page asks for: see in_wheel.py.

Blocks of sh and python run in their order: sh in one shell, python in one process until sh comes between; one that begins with "# FILE.py", "// FILE.c" and so on becomes that file. A block of text behind one
is what it prints: its lines come in that order, "..." stands for others. Numbers may differ by 2 %, and those in a line about times altogether. Where it shows an error of Tenon's, the last command of the block must fail.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import tenon

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
# A line of code that looks at what a page's block has written; the pages themselves check their numbers.
AFTER = {
    "guides/drift.md": "import json; assert [json.load(open(name))['drift'] for name in ('same.json', 'darker.json')] == [False, True]",
    "guides/pipeline.md": "import os; assert all(os.path.exists(name) for name in ('out/fashion.zip', 'out/fashion-cpu-avx512.tenon', 'fashion.html'))",
    "guides/pipeline-production.md": "import os; assert all(os.path.exists(name) for name in ('functions.html', 'zoo.html', 'out/second.tenon'))",
    "guides/transformers.md": "import os; assert os.path.exists('encoder.tenon')",
    "guides/start.md": "import os; assert all(os.path.exists(name) for name in ('bert.tenon', 'bert.html'))",
    "guides/recipes.md": """
from fastapi.testclient import TestClient
import app
client = TestClient(app.app)
assert 0 <= client.post("/classify", json=[[0.5] * 28] * 28).json()["class"] < 10
assert client.post("/classify", json=[[0.5] * 5] * 5).status_code == 422
""",
}


def steps(text):
    """(kind, code, shown): "sh", "python", or a file's name, and the lines that are to be printed."""
    found = []
    for kind, code in re.findall(r"^```(sh|python|yaml|cpp|c|text)\n(.*?)^```", text, re.M | re.S):
        if kind == "text":
            found[-1][2].extend(code.splitlines())
        elif file := re.match(r"(?:#|//) (\w+\.(?:py|yaml|cpp|c))\n", code):
            found.append([file[1], code, []])
        elif kind == "python" and found and found[-1][0] == "python":
            found[-1][1] += code
        else:
            found.append([kind, code, []])
    return found


# What differs from run to run: hashes, points in time, and the numbers of a line about times.
CHANGES = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b|\d{4}-\d\d-\d\dT[\d:.]+Z")
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
TIMES = re.compile(r"\d ?(?:s|ms|us|per second)\b")


def agrees(shown, printed):
    parts = [NUMBER.split(CHANGES.sub("#", " ".join(line.split()))) for line in (shown, printed)]
    free = TIMES.search(shown)
    return len(parts[0]) == len(parts[1]) and all(
        free or abs(float(a) - float(b)) <= max(0.02 * abs(float(a)), 0.02) if place % 2 else a == b for place, (a, b) in enumerate(zip(*parts)))


def missing(shown, printed):
    """The first of the lines that is not printed behind the one before, or None."""
    rest = iter(printed.splitlines())
    return next((line for line in shown if line != "..." and not any(agrees(line, other) for other in rest)), None)


class Shell:
    """One bash for all blocks of a page, so that what they set and start is there in the next."""

    END = "-- the block ends with"

    def __init__(self, folder, environment):
        self.folder = folder
        self.bash = subprocess.Popen(["bash"], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def run(self, code, fails):
        """(whether it ended as it should, what it printed)."""
        (self.folder / ".block").write_text(code)
        strict, lax = ("", "") if fails else ("set -e; ", "set +e; ")
        self.bash.stdin.write(f"{strict}source ./.block < /dev/null; status=$?; {lax}printf '\\n{self.END} %s\\n' $status\n")
        self.bash.stdin.flush()
        printed = []
        for line in self.bash.stdout:
            if line.startswith(self.END):
                return (line.split()[-1] != "0") == fails, "".join(printed)
            printed.append(line)
        return False, "".join(printed)

    def close(self):
        with contextlib.suppress(ProcessLookupError, BrokenPipeError):
            os.killpg(self.bash.pid, signal.SIGTERM)  # and what a block left running
            self.bash.communicate(timeout=30)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return str(probe.getsockname()[1])


class Guide(unittest.TestCase):
    def run_page(self, name):
        tool = pathlib.Path(tenon.__file__).parent / "bin"
        environment = {**os.environ, "PATH": f"{tool}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        printed, port = [], free_port()
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            shutil.copy(SOURCE / "models/fashion_cnn.onnx", folder / "model.onnx")
            shell = Shell(folder, environment)
            self.addCleanup(shell.close)
            if not shutil.which("c++"):
                shell.run('c++() { clang++-22 "$@"; }', False)
            if not shutil.which("cc"):
                shell.run('export CC=clang-22; cc() { clang-22 "$@"; }', False)
            for kind, code, shown in [*steps((SOURCE / "docs" / name).read_text()), ("python", AFTER.get(name, ""), [])]:
                code = code.replace(":8000", f":{port}").replace("--port 8000", f"--port {port}")
                if "." in kind:
                    (folder / kind).write_text(code)
                    continue
                if kind == "sh":
                    right, said = shell.run(code, any(line.startswith("error TN") for line in shown))
                else:
                    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                    right, said = done.returncode == 0, done.stdout
                self.assertTrue(right, f"{name}:\n{code}\n{said[-5000:]}")
                line = missing(shown, said)
                self.assertIsNone(line, f"{name} shows a line that is not printed:\n{line}\n{code}\n{said[-5000:]}")
                printed.append(said)
            shell.run("exit", False)
        return printed

    def test_pages(self):
        for name in PAGES:
            with self.subTest(name):
                printed = self.run_page(name)
                if name == "guides/transformers.md":
                    lines = printed[0].splitlines()
                    self.assertEqual([lines[0], lines[-1]], ["[]", "[]"])
                if name == "guides/recipes.md":
                    accuracies = [float(word) for word in re.findall(r"onnx +([\d.]+) %", "".join(printed))]
                    self.assertEqual(2, len(accuracies))
                    self.assertGreater(min(accuracies), 90)

    def test_planted(self):
        self.assertEqual([["sh", "a\n", ["f", "..."]], ["python", "b\nc\n", []], ["app.py", "# app.py\nd\n", []], ["e.cpp", "// e.cpp\n", []]],
                         steps("```sh\na\n```\n```text\nf\n...\n```\n```python\nb\n```\n```\nx\n```\n```python\nc\n```\n```python\n# app.py\nd\n```\n```cpp\n// e.cpp\n```\n"))
        printed = "cnn:1 is stored, 518.5 KiB, sha256 f10c95aa292a\nlatency   0.151 ms\ntop1 is 92.52 %\n"
        self.assertIsNone(missing(["cnn:1 is stored, 518.5 KiB, sha256 a10c95aa2920", "...", "latency 7.5 ms", "top1 is 92.50 %"], printed))
        for line in ("cnn:2 is stored, 518.5 KiB, sha256 f10c95aa292a", "cnn:1 is stored, 318.5 KiB, sha256 f10c95aa292a", "latency 0.151 s", "top1 is 88 %"):
            self.assertEqual(line, missing([line], printed))
        self.assertEqual("latency 1 ms", missing(["top1 is 92.52 %", "latency 1 ms"], printed))
        with tempfile.TemporaryDirectory() as folder:
            shell = Shell(pathlib.Path(folder), dict(os.environ))
            self.assertEqual((True, "2\n\n"), shell.run("x=2\necho $x\n", False))
            self.assertEqual((True, "2\n\n"), shell.run("echo $x\nfalse\n", True))
            self.assertEqual((False, "\n"), shell.run("true\n", True))
            self.assertFalse(shell.run("false\ntrue\n", False)[0])
            shell.bash.communicate()


if __name__ == "__main__":
    PAGES = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
