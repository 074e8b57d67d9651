"""The five commands of docs/serving.md, as they stand there, from a model file to an answer."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import unittest

from server import CNN, SOURCE, TENON, ServingTest

PORT = "8000"


def commands():
    page = (SOURCE / "docs/serving.md").read_text()
    return re.search(r"^```\n(mkdir.*?)^```$", page, re.M | re.S).group(1)


class Guide(ServingTest):
    def test_five_commands(self):
        script = commands()
        self.assertEqual(5, len(script.splitlines()), script)
        folder = self.folder / "guide"
        folder.mkdir()
        shutil.copy(CNN, folder / "fashion_cnn.onnx")
        # A free port, so that the test can run beside a server of somebody else.
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = str(probe.getsockname()[1])
        environment = dict(os.environ, PATH=f"{TENON.parent}{os.pathsep}{os.environ['PATH']}")
        shell = subprocess.Popen(["bash", "-ec", script.replace(PORT, port)], cwd=folder, env=environment, stdout=subprocess.PIPE, start_new_session=True)
        try:
            # The server keeps the pipe open, and the answer ends without a line's end.
            printed = b""
            while not printed.endswith(b"]}]}"):
                piece = os.read(shell.stdout.fileno(), 65536)
                self.assertTrue(piece, printed)
                printed += piece
            answer = json.loads(printed[printed.index(b'{"model_name"'):])
            self.assertEqual([1, 10], answer["outputs"][0]["shape"])
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
            shell.communicate(timeout=30)  # the server has ended too: it held the pipe


if __name__ == "__main__":
    unittest.main()
