#!/usr/bin/env python3
"""A model's way into production and back: the small CNN is pushed to a registry, gated on Fashion-MNIST's test pictures, promoted
and served under load; a worse version is refused with figures, a quantized one takes its place, first for a part of the requests, and
a rollback brings the first back. A canary that is too slow goes back by itself. Every step is a `tenon` command. Relies on a built tool, .venv and Debian's dataset-fashion-mnist.
"""

import argparse
import collections
import contextlib
import gzip
import http.client
import json
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import onnx
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models/fashion_cnn.onnx"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
SHAPE = "image:[1..256]x1x28x28"
SLOW_WIDTH, SLOW_LAYERS = 2048, 40  # of the version that is too slow: by ten times and more, so that a busy machine does not hide it
RULES = ["top1 >= 85%", "top1 >= champion - 1%", "size <= 8MiB", "p50 <= champion + 100%"]
LIMIT_S = 2  # within which a server follows an alias


def say(text):
    print(text, flush=True)


class Tool:
    """Runs `tenon` in a folder of the demo's own, and shows the commands as one would type them."""

    def __init__(self, tenon, folder):
        self.tenon, self.folder = tenon, folder

    def run(self, *arguments, shows=True):
        if shows:
            say("  $ tenon " + " ".join(shlex.quote(str(word)) for word in arguments))
        where = ["--registry", "registry"] if arguments[0] in ("registry", "serve") else []
        return subprocess.run([self.tenon, *map(str, arguments), *where, "--json", "--quiet"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def get(self, *arguments, shows=True):
        """The result of a command that must do what it is asked."""
        done = self.run(*arguments, shows=shows)
        if done.returncode != 0:
            sys.exit(f"platform-demo: 'tenon {' '.join(map(str, arguments))}' ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def gate(self, version):
        """The verdict; what noise leaves undecided is measured again for longer, as one would."""
        for seconds in (1, 3, 6):
            done = self.run("registry", "gate", version, "production", "--data", "registry:fashion-test:1", "--seconds", seconds)
            result, _ = json.JSONDecoder().raw_decode(done.stdout)
            if result["schema"] != "tenon.registry.gate/1":
                sys.exit(f"platform-demo: the gate failed: {done.stderr}")
            for rule in result["rules"]:
                say(f"      {rule['verdict']:<9}  {rule['rule']:<24} {rule['reason']}")
            if result["verdict"] != "undecided":
                break
            say("    noise leaves it undecided: measured again, for longer")
        if (result["verdict"] == "passed") != (done.returncode == 0):
            sys.exit("platform-demo: the verdict is not the exit code")
        return result["verdict"]


class Load:
    """Two clients that ask all the while; `counts` says which version answered, `failures` what else happened."""

    def __init__(self, port, image):
        self.counts, self.failures, self.latest = collections.Counter(), [], None
        head = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 28, 28], "parameters": {"binary_data_size": image.nbytes}}]}).encode()
        self.port, self.body, self.headers = port, head + image.tobytes(), {"Inference-Header-Content-Length": str(len(head))}
        self.ends = threading.Event()
        self.clients = [threading.Thread(target=self.ask) for _ in range(2)]

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        while not self.ends.wait(0.002):
            try:
                connection.request("POST", "/v2/models/cnn/infer", self.body, self.headers)
                answer = connection.getresponse()
                value = json.loads(answer.read())
                if answer.status == 200:
                    self.latest = int(value["model_version"])
                    self.counts[self.latest] += 1
                else:
                    self.failures.append(value)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                break

    def wait(self, condition, what):
        """Seconds until the condition holds."""
        start = time.monotonic()
        while not condition():
            if time.monotonic() - start > 60:
                sys.exit(f"platform-demo: {what}: that never came; failures: {self.failures[:3]}")
            time.sleep(0.01)
        return time.monotonic() - start

    def until(self, version):
        """Seconds until this version answers."""
        return self.wait(lambda: self.latest == version, f"version {version} answers")

    def post(self, path, value=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        say(f"  $ curl -X POST localhost:8000/{path}" + (f" -d '{json.dumps(value)}'" if value else ""))
        connection.request("POST", f"/{path}", json.dumps(value) if value else None)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return json.loads(text) if answer.status == 200 else None

    def split(self, shares):
        """Gives versions their shares of the requests, once the server has them."""
        self.wait(lambda: set(shares) <= self.ready(), f"the server has versions {set(shares)}")
        if not self.post("v2/repository/models/cnn/traffic", {"weights": {str(version): share for version, share in shares.items()}}):
            sys.exit("platform-demo: the traffic could not be split")

    def ready(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("POST", "/v2/repository/index")
        rows = json.loads(connection.getresponse().read())
        connection.close()
        return {int(row["version"]) for row in rows if row["state"] == "READY"}

    def __enter__(self):
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        for client in self.clients:
            client.join()


@contextlib.contextmanager
def server(tool):
    command = ["serve", "registry:cnn@production", "registry:cnn@canary", "--on-canary", "rollback", "--port", "0"]
    say("  $ tenon " + " ".join(command))
    with open(tool.folder / "serve.log", "w") as log:
        process = subprocess.Popen([tool.tenon, *command, "--registry", "registry"], cwd=tool.folder, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = process.stdout.readline()
            if not line:
                sys.exit("platform-demo: the server did not start: " + (tool.folder / "serve.log").read_text())
            yield int(line.rsplit(":", 1)[1])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            process.stdout.close()


def wait_ready(port):
    for _ in range(1000):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/v2/health/ready")
        if connection.getresponse().status == 200:
            return
        connection.close()
        time.sleep(0.02)
    sys.exit("platform-demo: the server never became ready")


def write_data(folder):
    """Fashion-MNIST's test pictures with labels, and some without for calibration; gives the first picture."""
    with gzip.open(DATA / "t10k-images-idx3-ubyte.gz") as stream:
        pictures = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(DATA / "t10k-labels-idx1-ubyte.gz") as stream:
        labels = np.frombuffer(stream.read(), np.uint8, offset=8)
    images = pictures.astype(np.float32) / 255
    np.savez(folder / "test.npz", image=images[500:5500], labels=labels[500:5500].astype(np.int64))
    np.savez(folder / "calibration.npz", image=images[:500])
    return images[:1]


def write_worse(path):
    """The model after a training that went wrong: noise on the weights of every layer."""
    model, random = onnx.load(MODEL), np.random.default_rng(1)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.ndim > 1:
            noisy = array + random.standard_normal(array.shape).astype(np.float32) * array.std() * 0.6
            tensor.CopyFrom(numpy_helper.from_array(noisy, tensor.name))
    onnx.save(model, path)


def write_slow(path):
    """The model with layers behind it that change nothing and take their time."""
    model = onnx.load(MODEL)
    last = model.graph.node[-1]
    classes, value = 10, "slow_0"
    name, last.output[0] = last.output[0], value
    middle = np.eye(SLOW_WIDTH, dtype=np.float32)
    for weight, values in (("widen", middle[:classes]), ("keep", middle), ("narrow", middle[:, :classes])):
        model.graph.initializer.append(numpy_helper.from_array(values, weight))
    for i, weight in enumerate(["widen", *["keep"] * SLOW_LAYERS, "narrow"]):
        following = name if i > SLOW_LAYERS else f"slow_{i + 1}"
        model.graph.node.append(helper.make_node("MatMul", [value, weight], [following]))
        value = following
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenon", type=lambda text: pathlib.Path(text).resolve(), required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        image = write_data(folder)
        write_worse(folder / "worse.onnx")
        write_slow(folder / "slow.onnx")
        (folder / "cnn.onnx").write_bytes(MODEL.read_bytes())
        play(Tool(options.tenon, folder), image)


def play(tool, image):
    started = time.monotonic()
    say("A trained CNN comes in: its model, the test data and a compiled engine become versions of a registry.")
    tool.get("compile", "cnn.onnx", "-o", "cnn.tenon", "--shape", SHAPE)
    tool.get("registry", "push", "cnn-model", "cnn.onnx")
    tool.get("registry", "push", "fashion-test", "test.npz")
    first = tool.get("registry", "push", "cnn", "cnn.tenon", "--parent", "cnn-model:1", "--note", "first")["version"]

    say("\nNothing goes to production without these rules:")
    tool.get("registry", "gate", "cnn@production", *[word for rule in RULES for word in ("--rule", rule)])
    if tool.run("registry", "promote", f"cnn:{first}", "production").returncode != 1:
        sys.exit("platform-demo: a version that was not measured was promoted")
    say("    refused: it was not measured yet")
    if tool.gate(f"cnn:{first}") != "passed":
        sys.exit("platform-demo: the trained model did not pass")
    tool.get("registry", "promote", f"cnn:{first}", "production")

    say("\nIt is served, and clients ask all the while from here on.")
    with server(tool) as port:
        wait_ready(port)
        with Load(port, image) as load:
            load.until(first)
            say(f"    version {first} answers")

            say("\nA training that went wrong is pushed. The gate refuses it, and says by which figures:")
            tool.get("compile", "worse.onnx", "-o", "worse.tenon", "--shape", SHAPE)
            worse = tool.get("registry", "push", "cnn", "worse.tenon", "--note", "trained on Friday")["version"]
            if tool.gate(f"cnn:{worse}") != "refused" or tool.run("registry", "promote", f"cnn:{worse}", "production").returncode != 1:
                sys.exit("platform-demo: the worse model was not refused")
            say(f"    refused; version {load.latest} goes on answering")

            say("\nA quantized version, with 8-bit integers, is pushed and passes. First it gets three in ten requests, then all, and none is lost:")
            tool.get("quantize", "cnn.onnx", "--data", "calibration.npz", "-o", "small.onnx")
            tool.get("compile", "small.onnx", "-o", "small.tenon", "--shape", SHAPE)
            good = tool.get("registry", "push", "cnn", "small.tenon", "--parent", "cnn-model:1", "--note", "8-bit integers")["version"]
            if tool.gate(f"cnn:{good}") != "passed":
                sys.exit("platform-demo: the good model did not pass")
            tool.get("registry", "promote", f"cnn:{good}", "canary")
            load.split({first: 7, good: 3})
            before = load.counts[first]
            load.wait(lambda: load.counts[good] > 100, "the canary's share")
            say(f"    of {load.counts[good] + load.counts[first] - before} requests version {good} had {load.counts[good]}")
            load.post("v2/repository/models/cnn/traffic", {"weights": {}})
            load.until(first)
            tool.get("registry", "promote", f"cnn:{good}", "production", "--reason", "as good, with integers")
            took = load.until(good)
            say(f"    version {good} answers after {took:.1f} s")

            say("\nSomebody is not happy with it. One command goes back:")
            tool.get("registry", "rollback", "cnn@production", "--reason", "customers complain")
            back = load.until(first)
            say(f"    version {first} answers again after {back:.1f} s")

            say("\nThe next version is as accurate, and slow. Nobody measured that, so half of the requests get it as a canary. The server takes it back:")
            tool.get("compile", "slow.onnx", "-o", "slow.tenon", "--shape", SHAPE)
            slow = tool.get("registry", "push", "cnn", "slow.tenon", "--note", "more layers")["version"]
            tool.get("registry", "promote", f"cnn:{slow}", "canary")
            load.split({first: 5, slow: 5})
            load.wait(lambda: load.counts[slow] > 0, "the canary answers")
            gone = load.wait(lambda: tool.get("registry", "history", "cnn@canary", shows=False)["events"][-1]["action"] == "rollback", "the rollback of the canary")
            event = tool.get("registry", "history", "cnn@canary")["events"][-1]
            say(f"    after {gone:.1f} s and {load.counts[slow]} requests it is at version {event['version']} again: {event['detail']['reason']}")
            seen = load.counts[slow]
            load.wait(lambda: slow not in load.ready(), "the canary goes")
            load.until(first)
            if (event["from"], event["version"]) != (slow, good) or load.counts[slow] > seen + 20:
                sys.exit("platform-demo: the slow canary was not taken back")
        say(f"    {sum(load.counts.values())} requests were answered (by version: {dict(sorted(load.counts.items()))}), {len(load.failures)} failed")
        if load.failures or max(took, back) > LIMIT_S:
            sys.exit(f"platform-demo: requests failed, or the server followed too late: {load.failures[:3]}")

    say("\nWhat happened is kept, and cannot be changed unseen:")
    for event in tool.get("registry", "history", "cnn@production")["events"]:
        to = f" to version {event['version']}" if event["version"] else ""
        verdict = f": {event['detail']['verdict']}" if event["action"] == "gate" else ""
        say(f"      {event['id']:>3}  {event['time']}  {event['action']}{to}{verdict}")
    verified = tool.get("registry", "verify")
    say(f"    {verified['versions']} versions, {verified['files']} files, {verified['events']} events: all as they were written")
    say(f"\nAll of it took {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
