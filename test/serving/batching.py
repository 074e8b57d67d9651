"""Batches of requests: which models are batched is proven when they are loaded, every answer is what the request gets alone, and what
waits is batched, put in order and bounded as config.pbtxt says.
"""

import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from server import PIXELS, TENON, Server, compile_cnn, input_of

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
FEATURES, CLASSES = 8, 10


def save(path, nodes, inputs, outputs, weights=None):
    """`inputs` and `outputs`: name -> (type, dims)."""
    def ports(table):
        return [helper.make_tensor_value_info(name, *port) for name, port in table.items()]
    weights = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", ports(inputs), ports(outputs), weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_models(folder):
    """Each is a class of models: rows by themselves, rows that depend on each other, rows that can fail, a length that varies."""
    random = np.random.default_rng(5)
    weight = random.standard_normal((FEATURES, CLASSES)).astype(np.float32)
    x, y = {"x": (F32, ["batch", FEATURES])}, {"y": (F32, ["batch", CLASSES])}
    save(folder / "linear.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], x, y, {"w": weight})
    save(folder / "centered.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("ReduceMean", ["y"], ["mean"], axes=[0], keepdims=1),
                                    helper.make_node("Sub", ["y", "mean"], ["centered"])], x, {**y, "centered": (F32, ["batch", CLASSES])}, {"w": weight})
    # Rows that depend on each other by about a thousandth of the larger ones.
    save(folder / "slight.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0, 1], keepdims=1),
                                  helper.make_node("Mul", ["mean", "small"], ["part"]), helper.make_node("Add", ["y", "part"], ["sum"])],
         x, {"sum": (F32, ["batch", CLASSES])}, {"w": weight, "small": np.array([0.01], np.float32)})
    # Computes with the number of rows, to no effect: nothing proves that.
    save(folder / "even.onnx", [helper.make_node("Shape", ["x"], ["shape"], start=0, end=1), helper.make_node("Cast", ["shape"], ["count"], to=F32),
                                helper.make_node("Div", ["x", "count"], ["part"]), helper.make_node("Mul", ["part", "count"], ["y"])], x, {"y": (F32, ["batch", FEATURES])})
    # One scale for the whole tensor, as 8-bit products with ranges found at run time have it.
    save(folder / "quantized.onnx", [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]), helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["z"])],
         x, {"z": (F32, ["batch", FEATURES])})
    save(folder / "first.onnx", [helper.make_node("Slice", ["x", "zero", "one", "zero"], ["head"]), helper.make_node("Add", ["x", "head"], ["sum"])],
         x, {"sum": (F32, ["batch", FEATURES])}, {"zero": np.array([0]), "one": np.array([1])})
    save(folder / "table.onnx", [helper.make_node("Gather", ["w", "ids"], ["y"])], {"ids": (I64, ["batch"])}, {"y": (F32, ["batch", CLASSES])}, {"w": weight})
    save(folder / "lengths.onnx", [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=1)], {"x": (F32, ["batch", "length"])}, {"y": (F32, ["batch", 1])})
    # As text models: ids and a mask over a length, one output a place and one a row. `leaky` takes places beyond the mask too.
    for name, masked in [("text", "masked"), ("leaky", "embedded")]:
        save(folder / f"{name}.onnx",
             [helper.make_node("Gather", ["table", "ids"], ["embedded"]), helper.make_node("Cast", ["mask"], ["numbers"], to=F32), helper.make_node("Unsqueeze", ["numbers", "two"], ["column"]),
              helper.make_node("Mul", ["embedded", "column"], ["masked"]), helper.make_node("ReduceSum", [masked, "one"], ["pooled"], keepdims=0)],
             {"ids": (I64, ["batch", "length"]), "mask": (I64, ["batch", "length"])}, {"masked": (F32, ["batch", "length", CLASSES]), "pooled": (F32, ["batch", CLASSES])},
             {"table": weight, "one": np.array([1]), "two": np.array([2])})
    save(folder / "flat.onnx", [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=1)], x, {"y": (F32, [1, 1])})


class Call(threading.Thread):
    """A request in a thread of its own."""

    def __init__(self, call):
        super().__init__()
        self.function, self.answer = call, None
        self.start()

    def run(self):
        self.answer = self.function()
        self.ended = time.monotonic()

    def wait(self):
        self.join(60)
        return self.answer


class Batching(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        write_models(cls.folder)
        (cls.folder / "models").mkdir()
        for model in sorted(cls.folder.glob("*.onnx")):
            subprocess.run([TENON, "compile", model, "-o", cls.folder / "models" / f"{model.stem}.tenon", "--quiet", "--target", "native"], check=True)
        subprocess.run([TENON, "compile", cls.folder / "linear.onnx", "-o", cls.folder / "models/ranks.tenon", "--quiet", "--target", "native", "--tp", "2"], check=True)
        cls.rows = np.random.default_rng(6).standard_normal((32, FEATURES)).astype(np.float32)
        cls.all = Server(cls.folder / "models").__enter__()
        cls.addClassCleanup(cls.all.__exit__)

    def setUp(self):
        self.before = {model.stem: self.statistics(self.all, model.stem) for model in (self.folder / "models").glob("*.tenon") if model.stem != "cnn"}

    def serve(self, *arguments, config=None, model="linear", **more):
        """The server of all tests over all models, or one over a model with a configuration."""
        if config is None:
            return contextlib.nullcontext(self.all)
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / model / "1").mkdir(parents=True)
        shutil.copy(self.folder / f"models/{model}.tenon", folder / model / "1/model.tenon")
        (folder / model / "config.pbtxt").write_text(config)
        return Server(folder, *arguments, **more)

    def ask(self, server, rows, model="linear", name="x", dtype="FP32", **parameters):
        rows = np.asarray(rows)
        tensor = {"name": name, "shape": list(rows.shape), "datatype": dtype, "data": rows.ravel().tolist()}
        return server.post(f"/v2/models/{model}/infer", {"inputs": [tensor], "parameters": parameters})

    def later(self, server, *arguments, **more):
        return Call(lambda: self.ask(server, *arguments, **more))

    def outputs(self, answer):
        self.assertEqual(200, answer[0], answer[1])
        return {output["name"]: np.array(output["data"], np.float32).reshape(output["shape"]) for output in answer[1]["outputs"]}

    def statistics(self, server, model):
        statistics = json.loads(server.get(f"/v2/models/{model}/stats")[1])["model_stats"][0]
        return statistics["inference_count"], statistics["execution_count"], {each["batch_size"]: each["compute_infer"]["count"] for each in statistics["batch_stats"]}

    def counts(self, server, model="linear"):
        """Inferences, executions and executions of each number of rows since the test began."""
        inferences, executions, batches = self.statistics(server, model)
        before = self.before[model] if server is self.all else (0, 0, {})
        batches = {size: count - before[2].get(size, 0) for size, count in batches.items()}
        return inferences - before[0], executions - before[1], {size: count for size, count in batches.items() if count}

    def waiting(self, server, count, model="linear"):
        server.wait_until(lambda: server.metric("tenon_queue_length", f'model="{model}",version="1"') == count)

    def one_running(self, server, model="linear", **more):
        """A request that the worker, which is paused, has; what comes then waits."""
        call = self.later(server, self.rows[:1] if model != "table" else [0], model=model, **more)
        server.wait_until(lambda: server.metric("tenon_requests_running", f'model="{model}",version="1"') == 1)
        return call

    def reason(self, server, model):
        row = next(row for row in server.post("/v2/repository/index")[1] if row["name"] == model)
        self.assertEqual("READY", row["state"])
        return row["reason"]

    def test_batches(self):
        """What waits runs in one batch, also of unequal rows; each answer has the bits that the request gets alone."""
        with self.serve() as server:
            groups = [self.rows[i:i + 1 + i % 3] for i in range(12)]
            alone = [self.outputs(self.ask(server, group))["y"] for group in groups]
            rows = sum(len(group) for group in groups)
            self.assertEqual((rows, 12), self.counts(server)[:2])
            with server.paused():
                calls = [self.one_running(server)]
                calls += [self.later(server, group) for group in groups]
                self.waiting(server, 12)
            for expected, call in zip(alone, calls[1:]):
                np.testing.assert_array_equal(expected, self.outputs(call.wait())["y"])
            inferences, executions, batches = self.counts(server)
            self.assertEqual((2 * rows + 1, 14), (inferences, executions))
            self.assertEqual(1, batches[rows])
            self.assertEqual(executions, sum(batches.values()))
            config = json.loads(server.get("/v2/models/linear/config")[1])
            self.assertIn("dynamic_batching", config)
            self.assertIn("up to 64 rows", config["parameters"]["tenon.batching"]["string_value"])
            self.assertEqual("", self.reason(server, "linear"))

    def test_ranks(self):
        """An engine whose ranks each have half of the columns is batched as others are; its memory is that of all ranks."""
        groups = [self.rows[i:i + 1 + i % 3] for i in range(4)]
        alone = [self.outputs(self.ask(self.all, group))["y"] for group in groups]
        with self.all.paused():
            calls = [self.one_running(self.all, model="ranks")] + [self.later(self.all, group, model="ranks") for group in groups]
            self.waiting(self.all, 4, model="ranks")
        for expected, call in zip(alone, calls[1:]):
            np.testing.assert_array_equal(expected, self.outputs(call.wait())["y"])
        self.assertEqual((1 + sum(map(len, groups)), 2), self.counts(self.all, "ranks")[:2])
        self.assertGreater(self.all.metric("tenon_model_bytes", 'model="ranks"'), (self.folder / "models/ranks.tenon").stat().st_size)

    def test_proof(self):
        """Models whose rows depend on each other run unbatched, and the output is named where one looks for it."""
        with self.serve() as server:
            for model, output, how in [("centered", "centered", "takes the mean over the rows"), ("quantized", "z", "takes the (largest|smallest) of all rows"),
                                       ("first", "sum", "takes some of the rows"), ("slight", "sum", "takes the mean"), ("even", "y", "computes with the number of rows")]:
                for text in [self.reason(server, model), json.loads(server.get(f"/v2/models/{model}/config")[1])["parameters"]["tenon.batching"]["string_value"],
                             next(line for line in server.logged(f"'{model}'", 2) if "was loaded" not in line)]:
                    self.assertRegex(text, f"TN0850: rows of output '{output}' are not independent: node '[^']+' {how}")
                self.assertNotIn("dynamic_batching", json.loads(server.get(f"/v2/models/{model}/config")[1]))
            self.assertEqual("", self.reason(server, "flat"))  # has no batch, and nobody asked for one
            with server.paused():
                calls = [self.one_running(server, "centered")]
                calls += [self.later(server, self.rows[i:i + 2], model="centered") for i in range(4)]
                self.waiting(server, 4, "centered")
            for i, call in enumerate(calls[1:]):
                outputs = self.outputs(call.wait())
                np.testing.assert_allclose(outputs["y"] - outputs["y"].mean(axis=0), outputs["centered"], atol=1e-5)
            self.assertEqual(5, self.counts(server, "centered")[1])

    def test_second_look(self):
        """Where a configuration accepts that rows meet, they still may change an answer by no more than the types that it computes in."""
        accepted = 'dynamic_batching {} parameters { key: "answers_may_depend_on_other_requests" value { string_value: "accepted" } }'
        with self.serve(config=accepted, model="slight") as server:
            self.assertRegex(self.reason(server, "slight"), "TN0850: output 'sum' of a row changes by [0-9.e-]+ when [0-9]+ rows are batched")
            self.assertNotIn("dynamic_batching", json.loads(server.get("/v2/models/slight/config")[1]))
        with self.serve(config=accepted, model="even") as server:
            self.assertEqual("", self.reason(server, "even"))
            self.assertIn("dynamic_batching", json.loads(server.get("/v2/models/even/config")[1]))

    def test_asked_for(self):
        """Where config.pbtxt asks for batches of a model that has no batch, the reason stands in the index; without being asked it does not batch."""
        with self.serve(config="dynamic_batching {}", model="flat") as server:
            self.assertIn("TN0850: dim 0 of output 'y' is 1, which is not the batch", self.reason(server, "flat"))
            np.testing.assert_allclose([[self.rows.sum()]], self.outputs(self.ask(server, self.rows, "flat"))["y"], rtol=1e-4)
        with self.serve(config="max_batch_size: 4") as server:
            with server.paused():
                calls = [self.one_running(server)] + [self.later(server, self.rows[:2]) for _ in range(3)]
                self.waiting(server, 3)
            for call in calls:
                self.outputs(call.wait())
            self.assertEqual((7, 4, {1: 1, 2: 3}), self.counts(server))

    def gather(self, delay):
        """A server that waits so many microseconds for four rows, unless it has them."""
        return self.serve(config=f"max_batch_size: 8\ndynamic_batching {{ preferred_batch_size: [ 4 ] max_queue_delay_microseconds: {delay} }}")

    def test_preferred(self):
        """Four rows run as soon as they are there, and fewer wait: the delay is longer than the test may take."""
        with self.gather(3_000_000_000) as server:
            for batches in [1, 2]:
                calls = [self.later(server, self.rows[:1]) for _ in range(3)]
                self.waiting(server, 3)
                self.assertEqual(batches - 1, self.counts(server)[1])
                calls.append(self.later(server, self.rows[:1]))
                for call in calls:
                    self.outputs(call.wait())
                self.assertEqual((4 * batches, batches, {4: batches}), self.counts(server))

    def test_delay(self):
        """What does not come to a preferred size runs at the end of the delay, together."""
        with self.gather(400_000) as server:
            with server.paused():
                calls = [self.later(server, self.rows[i:i + 1]) for i in range(4 + 6)]
                self.waiting(server, 6)
            for call in calls:
                self.outputs(call.wait())
            self.assertEqual((10, 3, {2: 1, 4: 2}), self.counts(server))
            self.outputs(self.ask(server, self.rows[:1]))

    def test_most_rows(self):
        with self.serve(config="max_batch_size: 4\ndynamic_batching {}") as server:
            with server.paused():
                calls = [self.one_running(server)] + [self.later(server, self.rows[i:i + 3]) for i in range(4)] + [self.later(server, self.rows[:1])]
                self.waiting(server, 5)
            for call in calls:
                self.outputs(call.wait())
            self.assertEqual((14, 5, {1: 1, 3: 3, 4: 1}), self.counts(server))
            self.assertEqual(400, self.ask(server, self.rows[:5])[0])

    def test_shapes_stay_apart(self):
        with self.serve() as server:
            rows = [self.rows[i:i + 1, :1 + i % 2] for i in range(8)]
            with server.paused():
                calls = [self.one_running(server, "lengths")] + [self.later(server, row, model="lengths") for row in rows]
                self.waiting(server, 8, "lengths")
            for row, call in zip(rows, calls[1:]):
                np.testing.assert_array_equal(row.max(axis=1, keepdims=True), self.outputs(call.wait())["y"])
            self.assertEqual((9, 3, {1: 1, 4: 2}), self.counts(server, "lengths"))

    def ask_text(self, server, ids, model="text", mask=None):
        mask = [1] * len(ids) if mask is None else mask
        inputs = [{"name": name, "shape": [1, len(row)], "datatype": "INT64", "data": row} for name, row in [("ids", ids), ("mask", mask)]]
        return server.post(f"/v2/models/{model}/infer", {"inputs": inputs})

    def test_padding(self):
        """Requests of unequal lengths run in one batch, padded to a bucket, and get outputs of their own length."""
        config = 'parameters { key: "pad" value { string_value: "ids: 3, mask: 0" } }\nparameters { key: "buckets" value { string_value: "4, 8" } }'
        rows = [list(range(length)) for length in [1, 3, 4, 5, 7, 8, 8]]
        with self.serve(config=config, model="text") as server:
            alone = [self.outputs(self.ask_text(server, row)) for row in rows]
            self.assertEqual((1, 5, 10), alone[3]["masked"].shape)
            self.assertIn("padded along length", json.loads(server.get("/v2/models/text/config")[1])["parameters"]["tenon.batching"]["string_value"])
            before = self.counts(server, "text")[1]
            with server.paused():
                calls = [Call(lambda: self.ask_text(server, [1] * 9))]  # longer than all buckets: as it is
                server.wait_until(lambda: server.metric("tenon_requests_running", 'model="text",version="1"') == 1)
                calls += [Call(lambda row=row: self.ask_text(server, row)) for row in rows]
                self.waiting(server, len(rows), "text")
            self.assertEqual((1, 9, 10), self.outputs(calls[0].wait())["masked"].shape)
            for expected, call in zip(alone, calls[1:]):
                outputs = self.outputs(call.wait())
                for name in ["masked", "pooled"]:
                    np.testing.assert_allclose(expected[name], outputs[name], rtol=1e-5, atol=1e-6)
            self.assertEqual(before + 3, self.counts(server, "text")[1])
            before = self.counts(server, "text")[1]
            with server.paused():  # a mask that hides a place of its own is run at its own length
                calls = [Call(lambda: self.ask_text(server, [1] * 9))]
                server.wait_until(lambda: server.metric("tenon_requests_running", 'model="text",version="1"') == 1)
                calls += [Call(lambda ids=ids, mask=mask: self.ask_text(server, ids, mask=mask)) for ids, mask in [([1, 2, 3], [0, 1, 1]), ([1, 2, 3], None), ([2, 1], None)]]
                self.waiting(server, 3, "text")
            self.assertEqual((1, 3, 10), self.outputs(calls[1].wait())["masked"].shape)
            self.assertEqual([200] * 3, [call.wait()[0] for call in (calls[0], *calls[2:])])
            self.assertEqual(before + 3, self.counts(server, "text")[1])
            answer = self.ask_text(server, [1, 2], mask=[1])
            self.assertEqual((400, "TN0807"), (answer[0], answer[1]["error"][:6]))
        with self.serve(config=config, model="leaky") as server:
            self.assertRegex(self.reason(server, "leaky"), "not padded: TN0850: padded positions reach output 'pooled': node 'pooled' adds up padded places")
            alone = [self.outputs(self.ask_text(server, row, "leaky"))["pooled"] for row in rows]
            with server.paused():
                calls = [Call(lambda row=row: self.ask_text(server, row, "leaky")) for row in rows]
                server.wait_until(lambda: server.metric("tenon_queue_length", 'model="leaky",version="1"') >= len(rows) - 2)
            for expected, call in zip(alone, calls):
                np.testing.assert_allclose(expected, self.outputs(call.wait())["pooled"], rtol=1e-5, atol=1e-6)
        with self.serve(config=config.replace("mask:", "msk:"), model="text", waits=False) as server:
            server.wait_until(lambda: server.state("text") == "UNAVAILABLE")
            self.assertIn("TN0805: model 'text' version 1: the parameter 'pad' names 'msk'", server.post("/v2/repository/index")[1][0]["reason"])
        with self.serve(config=config.replace("mask: 0", "mask: 1"), model="text") as server:
            self.assertIn("'mask' masks padded positions only if it is padded with 0, but the configuration pads it with another value", self.reason(server, "text"))
        with self.serve(config=config.replace(", mask: 0", ""), model="text") as server:
            self.assertIn("input 'mask' also has the dim length, but 'pad' gives no value for it", self.reason(server, "text"))

    def test_error_of_one(self):
        """A request that the model refuses, or whose data do not fit, takes no other of its batch with it."""
        with self.serve() as server:
            with server.paused():
                ids = [1, 2, 10_000, 3, 4]
                calls = [self.one_running(server, "table", name="ids", dtype="INT64")]
                calls += [self.later(server, [each], model="table", name="ids", dtype="INT64") for each in ids]
                calls.append(self.later(server, [0.5], model="table", name="ids", dtype="INT64"))
                self.waiting(server, 6, "table")
            status, value = calls.pop().wait()
            self.assertEqual((400, "TN0807"), (status, value["error"][:6]))
            expected = {}
            for each, call in zip(ids, calls[1:]):
                if each == 10_000:
                    self.assertNotEqual(200, call.wait()[0])
                    self.assertRegex(call.wait()[1]["error"], "^TN06")
                else:
                    expected[each] = self.outputs(call.wait())["y"]
            for each, output in expected.items():
                np.testing.assert_array_equal(output, self.outputs(self.ask(server, [each], "table", "ids", "INT64"))["y"])

    def test_leaving(self):
        """Requests that were cancelled or timed out are not in the batch."""
        with self.serve() as server:
            with server.paused():
                calls = [self.one_running(server), self.later(server, self.rows[:1]), self.later(server, self.rows[:1], timeout=50_000)]
                body = json.dumps({"inputs": [{"name": "x", "shape": [1, FEATURES], "datatype": "FP32", "data": [0] * FEATURES}]}).encode()
                gone = socket.create_connection(("127.0.0.1", server.port))
                gone.sendall(b"POST /v2/models/linear/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                status, value = calls.pop().wait()
                self.assertEqual((504, "TN0813"), (status, value["error"][:6]))
                self.waiting(server, 2)
                gone.close()
                self.waiting(server, 1)
                calls.append(self.later(server, self.rows[:1]))
                self.waiting(server, 2)
            for call in calls:
                self.outputs(call.wait())
            self.assertEqual((3, 2, {1: 1, 2: 1}), self.counts(server))

    def test_versions_stay_apart(self):
        """A load while requests wait: those wait for the version that they came for."""
        with self.serve() as server:
            with server.paused():
                calls = [self.one_running(server)] + [self.later(server, self.rows[:1]) for _ in range(3)]
                self.waiting(server, 3)
                load = Call(lambda: server.post("/v2/repository/models/linear/load"))
                time.sleep(0.2)
            for call in calls:
                self.outputs(call.wait())
            self.assertEqual(200, load.wait()[0])
            self.assertEqual((4, 2, {1: 1, 3: 1}), self.counts(server))

    def test_priorities(self):
        config = """max_batch_size: 400
            dynamic_batching {
              priority_levels: 3 default_priority_level: 2
              priority_queue_policy { key: 3 value { max_queue_size: 2 timeout_action: DELAY default_timeout_microseconds: 60000000 allow_timeout_override: true } }
            }"""
        rows = 400  # fill a batch, and take longer than threads of the test need to notice an answer

        def ask(server, **parameters):
            tensor = input_of(shape=[rows, 1, 28, 28], data=None, parameters={"binary_data_size": 4 * rows * PIXELS})
            head = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
            return server.post("/v2/models/cnn/infer", head + bytes(4 * rows * PIXELS), headers={"Inference-Header-Content-Length": str(len(head))})

        compile_cnn(self.folder / "models/cnn.tenon", "--target", "native")
        with self.serve("--threads", 1, config=config, model="cnn") as server:
            calls = {}

            def later(name, waiting, **parameters):
                calls[name] = Call(lambda: ask(server, **parameters))
                self.waiting(server, waiting, "cnn")

            with server.paused():
                calls["running"] = Call(lambda: ask(server))
                server.wait_until(lambda: server.metric("tenon_requests_running") == 1)
                later("put off", 1, priority=3, timeout=100_000)
                later("usual", 2)
                later("highest", 3, priority=1)
                time.sleep(0.2)
                later("low", 4, priority=3)
                status, value = ask(server, priority=3)
                self.assertEqual((429, "TN0812"), (status, value["error"][:6]))
                self.assertIn("2 requests with priority 3", value["error"])
            for call in calls.values():
                self.assertEqual(200, call.wait()[0])
            self.assertEqual(["running", "highest", "usual", "low", "put off"], sorted(calls, key=lambda name: calls[name].ended))


if __name__ == "__main__":
    unittest.main()
