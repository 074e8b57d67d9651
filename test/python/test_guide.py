"""The guides of docs run as they stand: `test_guide.py PAGE...`, one folder a page. Runs with a Python that has what the page asks for: see in_wheel.py.

Blocks of sh and python run in their order, python in one process until sh comes between; one that begins with "# FILE.py" or "# FILE.yaml" becomes that file.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import tenon

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
# A line of code that looks at what a page's block has written; the pages themselves check their numbers.
AFTER = {
    "drift.md": "import json; assert [json.load(open(name))['drift'] for name in ('same.json', 'darker.json')] == [False, True]",
    "pipeline.md": "import os; assert all(os.path.exists(name) for name in ('out/fashion.zip', 'out/fashion-cpu-avx512.tenon', 'fashion.html'))",
    "pipeline-production.md": "import os; assert all(os.path.exists(name) for name in ('functions.html', 'zoo.html', 'out/second.tenon'))",
    "transformers.md": "import os; assert os.path.exists('encoder.tenon')",
    "start.md": "import os; assert all(os.path.exists(name) for name in ('model.html', 'bert.tenon', 'bert.html', 'module.tenon'))",
    "guides.md": """
from fastapi.testclient import TestClient
import app
client = TestClient(app.app)
assert 0 <= client.post("/classify", json=[[0.5] * 28] * 28).json()["class"] < 10
assert client.post("/classify", json=[[0.5] * 5] * 5).status_code == 422
""",
}


def steps(text):
    """(kind, code): "sh", "python", or a file's name."""
    found = []
    for kind, code in re.findall(r"^```(sh|python|yaml)\n(.*?)^```", text, re.M | re.S):
        if file := re.match(r"# (\w+\.(?:py|yaml))\n", code):
            found.append((file[1], code))
        elif kind == "python" and found and found[-1][0] == "python":
            found[-1] = (kind, found[-1][1] + code)
        else:
            found.append((kind, code))
    return found


class Guide(unittest.TestCase):
    def run_page(self, name):
        tool = pathlib.Path(tenon.__file__).parent / "bin"
        environment = {**os.environ, "PATH": f"{tool}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        printed = []
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(SOURCE / "models/fashion_cnn.onnx", pathlib.Path(folder) / "model.onnx")
            for kind, code in [*steps((SOURCE / "docs" / name).read_text()), ("python", AFTER[name])]:
                if kind.endswith((".py", ".yaml")):
                    (pathlib.Path(folder) / kind).write_text(code)
                    continue
                command = ["bash", "-e", "-c", code] if kind == "sh" else [sys.executable, "-c", code]
                done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, f"{name}:\n{code}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
                printed.append(done.stdout)
        return printed

    def test_pages(self):
        for name in PAGES:
            with self.subTest(name):
                printed = self.run_page(name)
                if name == "transformers.md":
                    lines = printed[0].splitlines()
                    self.assertEqual([lines[0], lines[-1]], ["[]", "[]"])
                if name == "guides.md":
                    accuracies = [float(word) for word in re.findall(r"onnx +([\d.]+) %", "".join(printed))]
                    self.assertEqual(2, len(accuracies))
                    self.assertGreater(min(accuracies), 90)

    def test_planted(self):
        self.assertEqual([("sh", "a\n"), ("python", "b\nc\n"), ("app.py", "# app.py\nd\n")],
                         steps("```sh\na\n```\n```python\nb\n```\n```\nx\n```\n```python\nc\n```\n```python\n# app.py\nd\n```\n"))


if __name__ == "__main__":
    PAGES = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
