"""The commands of docs/guides/serving.md and docs/guides/watching.md, as they stand there, from a model file to an answer, and to drift that is found."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import unittest

from server import CNN, SOURCE, TENON, ServingTest

PORT = "8000"


def commands(page, first):
    return re.search(rf"^```\n({first}.*?)^```$", (SOURCE / page).read_text(), re.M | re.S).group(1)


def run_until(script, folder, end):
    """What the commands print, up to `end`, in the folder."""
    # A free port, so that the test can run beside a server of somebody else.
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    environment = dict(os.environ, PATH=os.pathsep.join([str(TENON.parent), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]))
    shell = subprocess.Popen(["bash", "-ec", script.replace(PORT, port)], cwd=folder, env=environment, stdout=subprocess.PIPE, start_new_session=True)
    try:
        # The server keeps the pipe open, and the answer ends without a line's end.
        printed = b""
        while not printed.endswith(end):
            piece = os.read(shell.stdout.fileno(), 65536)
            if not piece:
                raise AssertionError(printed)
            printed += piece
        return printed
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.communicate(timeout=30)  # the server has ended too: it held the pipe


class Guide(ServingTest):
    def test_five_commands(self):
        script = commands("docs/guides/serving.md", "mkdir")
        self.assertEqual(5, len(script.splitlines()), script)
        answer = self.run_until(script, "serving", b"]}]}")
        self.assertEqual([1, 10], json.loads(answer[answer.index(b'{"model_name"'):])["outputs"][0]["shape"])

    def test_drift(self):
        said = self.run_until(commands("docs/guides/watching.md", "python3"), "watching", b"}]}\n")
        found = [each["feature"] for each in json.loads(said.splitlines()[-1])["features"] if each["drift"]]
        self.assertIn("image.mean", found)

    def run_until(self, script, name, end):
        folder = self.folder / name
        folder.mkdir()
        shutil.copy(CNN, folder / "fashion_cnn.onnx")
        return run_until(script, folder, end)


if __name__ == "__main__":
    unittest.main()
