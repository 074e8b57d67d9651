"""Clients of gRPC, unmodified, against `tenon serve`: tritonclient (sync, aio, stream) and the channels of grpcio.

Inferences are compared with `tenon run` on the same input, all other answers with those of HTTP. Runs in .venv-serving.
"""

import asyncio
import json
import queue
import re
import signal
import subprocess
import sys
import threading
import unittest

import grpc
import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict
from tritonclient.grpc import model_config_pb2
from tritonclient.grpc import service_pb2 as messages
from tritonclient.utils import InferenceServerException

from receiver import Receiver
from routes import TOKENS, routes
from server import IMAGE, SOURCE, ImageTest, Server, ServingTest

SERVICE = "/inference.GRPCInferenceService/"


def image_input(image=IMAGE):
    tensor = triton.InferInput("image", list(image.shape), "FP32")
    tensor.set_data_from_numpy(image)
    return tensor


def plain(value):
    """JSON as protobuf has it: integers of 64 bits are text, what has its default is left out."""
    if isinstance(value, dict):
        members = {key: plain(each) for key, each in value.items()}
        return {key: each for key, each in members.items() if each not in ("", "0", "KIND_AUTO", "REJECT", False, [], {})}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Clients(ImageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.folder / "models").__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        cls.address = f"127.0.0.1:{cls.server.port}"

    def test_traces(self):
        """The metadata traceparent says which trace a call is in."""
        trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
        with Receiver() as receiver, Server(self.folder / "models", "--otlp", receiver.url, "--trace-share", 0) as server, triton.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            for value in [f"00-{trace}-{parent}-01", f"00-{'c' * 32}-{parent}-00", "nonsense"]:
                self.check(client.infer("cnn", [image_input()], headers={"traceparent": value}))
            server.wait_until(receiver.spans)
            roots = [span for span in receiver.spans() if span["name"] == "infer"]
            self.assertEqual([(trace, parent)], [(span["traceId"], span["parentSpanId"]) for span in roots])
            receiver.check_trace(self, roots[0])

    def check(self, result):
        np.testing.assert_array_equal(self.expected, result.as_numpy("logits"))

    def test_inference(self):
        with triton.InferenceServerClient(self.address) as client:
            for outputs in (None, [triton.InferRequestedOutput("logits")]):
                for compression in (None, "gzip", "deflate"):
                    for version in ("", "1"):
                        result = client.infer("cnn", [image_input()], version, outputs, "a\u00e9\"1", priority=1, timeout=10_000_000, client_timeout=20,
                                              compression_algorithm=compression)
                        self.check(result)
                        answer = result.get_response()
                        self.assertEqual(("cnn", "1", "a\u00e9\"1"), (answer.model_name, answer.model_version, answer.id))
            results = queue.Queue()
            for _ in range(32):
                client.async_infer("cnn", [image_input()], lambda result, error: results.put(error or result))
            for _ in range(32):
                self.check(results.get(timeout=30))

    def test_contents(self):
        """Elements as numbers, which are to be as many as the shape has and of the input's type."""
        request = messages.ModelInferRequest(model_name="cnn")
        tensor = request.inputs.add(name="image", datatype="FP32", shape=IMAGE.shape)
        with grpc.insecure_channel(self.address) as channel:
            infer = channel.unary_unary(SERVICE + "ModelInfer", messages.ModelInferRequest.SerializeToString, messages.ModelInferResponse.FromString)
            tensor.contents.fp32_contents.extend(IMAGE.ravel().tolist())
            self.assertEqual(self.expected.tobytes(), infer(request).raw_output_contents[0])
            tensor.contents.fp32_contents.append(0)
            self.fails("TN0807", grpc.StatusCode.INVALID_ARGUMENT, infer, request)
            del tensor.contents.fp32_contents[-2:]
            self.fails("TN0807", grpc.StatusCode.INVALID_ARGUMENT, infer, request)
            tensor.contents.fp32_contents.append(0)
            tensor.contents.int_contents.append(1)
            self.fails("TN0807", grpc.StatusCode.INVALID_ARGUMENT, infer, request)

    def fails(self, code, status, call, *arguments, **more):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, **more)
        self.assertEqual((status, code), (caught.exception.code(), caught.exception.details()[:6]), caught.exception.details())
        return caught.exception

    def test_management(self):
        with triton.InferenceServerClient(self.address) as client:
            self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("cnn") and client.is_model_ready("cnn", "1"))
            self.assertFalse(client.is_model_ready("other"))
            client.unload_model("cnn")
            self.assertFalse(client.is_model_ready("cnn"))
            self.assertEqual("UNAVAILABLE", client.get_model_repository_index().models[0].state)
            with self.assertRaisesRegex(InferenceServerException, "TN0811"):
                client.infer("cnn", [image_input()])
            client.load_model("cnn")
            self.assertEqual("READY", client.get_model_repository_index().models[0].state)
            with self.assertRaisesRegex(InferenceServerException, "TN0818"):
                client.load_model("cnn", config="{}")
            for call in [client.get_system_shared_memory_status, client.get_cuda_shared_memory_status, client.unregister_system_shared_memory, client.unregister_cuda_shared_memory,
                         lambda: client.register_system_shared_memory("a", "b", 1), lambda: client.register_cuda_shared_memory("a", b"YWJj", 0, 1),
                         lambda: client.update_trace_settings(settings={"trace_rate": "1"}), lambda: client.update_log_settings({"log_info": False})]:
                with self.assertRaisesRegex(InferenceServerException, "UNIMPLEMENTED.*TN0818"):
                    call()
            with self.assertRaisesRegex(InferenceServerException, "INVALID_ARGUMENT.*TN0807"):
                client.infer("cnn", [])
            with self.assertRaisesRegex(InferenceServerException, "NOT_FOUND.*TN0810"):
                client.get_model_metadata("other")

    def test_same_answers_as_http(self):
        """Every field of the JSON stands in the message, and nothing else does."""
        with triton.InferenceServerClient(self.address) as client:
            client.infer("cnn", [image_input()])
            for path, call, within in [("/v2", client.get_server_metadata, None), ("/v2/models/cnn", lambda: client.get_model_metadata("cnn"), None),
                                       ("/v2/models/cnn/config", lambda: client.get_model_config("cnn"), "config"),
                                       ("/v2/models/stats", client.get_inference_statistics, None), ("/v2/models/cnn/stats", lambda: client.get_inference_statistics("cnn", "1"), None)]:
                message = MessageToDict(call(), preserving_proto_field_name=True)
                self.assertEqual(plain(json.loads(self.server.get(path)[1])), plain(message[within] if within else message), path)
            index = MessageToDict(client.get_model_repository_index(), preserving_proto_field_name=True)
            self.assertEqual(plain(self.server.post("/v2/repository/index")[1]), plain(index["models"]))
            self.assertEqual(["OFF"], client.get_trace_settings().settings["trace_level"].value)
            self.assertTrue(client.get_log_settings().settings["log_info"].bool_param)

    def test_health(self):
        with grpc.insecure_channel(self.address) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            self.assertEqual(b"\x08\x01", check(b""))
            self.assertEqual(b"\x08\x01", check(b"\x0a\x1e" + b"inference.GRPCInferenceService"))
            self.fails("TN0810", grpc.StatusCode.NOT_FOUND, check, b"\x0a\x01x")


    def test_aio(self):
        async def ask():
            async with tritonclient.grpc.aio.InferenceServerClient(self.address) as client:
                self.assertTrue(await client.is_server_ready())
                for result in await asyncio.gather(*[client.infer("cnn", [image_input()], compression_algorithm="gzip") for _ in range(16)]):
                    self.check(result)

                async def requests():
                    for i in range(8):
                        yield {"model_name": "cnn", "inputs": [image_input()], "request_id": str(i)}

                ids = []
                async for result, error in client.stream_infer(requests()):
                    self.assertIsNone(error)
                    self.check(result)
                    ids.append(result.get_response().id)
                self.assertEqual([str(i) for i in range(8)], ids)

        asyncio.run(ask())

    def test_stream(self):
        """Replies come in the order of requests, and an error ends its own request alone."""
        results = queue.Queue()
        with triton.InferenceServerClient(self.address) as client:
            client.start_stream(lambda result, error: results.put((result, error)))
            for i in range(20):
                client.async_stream_infer("cnn" if i % 5 else "other", [image_input()], request_id=str(i), enable_empty_final_response=True)
            for i in range(20):
                result, error = results.get(timeout=30)
                if i % 5 == 0:
                    self.assertIn("TN0810", str(error))
                else:
                    self.check(result)
                    self.assertEqual(str(i), result.get_response().id)
                    self.assertTrue(result.get_response().parameters["triton_final_response"].bool_param)
            client.stop_stream()

    def test_large(self):
        """Tensors of many frames both ways, the input larger than any window."""
        many = np.random.default_rng(1).random((2_000, 1, 28, 28), dtype=np.float32)  # 6 MB
        with triton.InferenceServerClient(self.address) as client:
            logits = client.infer("cnn", [image_input(many)]).as_numpy("logits")
            self.assertEqual((2_000, 10), logits.shape)
            np.testing.assert_array_equal(logits[:3], client.infer("cnn", [image_input(many[:3])]).as_numpy("logits"))

    def test_deadline(self):
        with triton.InferenceServerClient(self.address) as client, self.server.paused():
            with self.assertRaisesRegex(InferenceServerException, "DEADLINE_EXCEEDED|Deadline"):
                client.infer("cnn", [image_input()], client_timeout=0.5)
            # The server ends it too, though the client has not: nothing of it stays.
            self.server.wait_until(lambda: self.server.metric("tenon_queue_length") == 0)

    def test_cancel_frees_the_place(self):
        before = self.server.metric("tenon_requests_total", 'model="cnn",version="1",outcome="cancelled"')
        with triton.InferenceServerClient(self.address) as client, self.server.paused():
            running = client.async_infer("cnn", [image_input()], lambda result, error: None)
            self.server.wait_until(lambda: self.server.metric("tenon_requests_running") == 1)
            calls = [client.async_infer("cnn", [image_input()], lambda result, error: None) for _ in range(5)]
            self.server.wait_until(lambda: self.server.metric("tenon_queue_length") == 5)
            for call in calls:
                call.cancel()
            self.server.wait_until(lambda: self.server.metric("tenon_queue_length") == 0)
            running.cancel()
        self.server.wait_until(lambda: self.server.metric("tenon_requests_total", 'model="cnn",version="1",outcome="cancelled"') == before + 6)
        with triton.InferenceServerClient(self.address) as client:
            client.infer("cnn", [image_input()])  # the run of which nobody waits for the end has ended
        # A client that goes away does so too.
        with self.server.paused():
            with grpc.insecure_channel(self.address) as channel:
                infer = channel.unary_unary(SERVICE + "ModelInfer")
                request = messages.ModelInferRequest(model_name="cnn", raw_input_contents=[IMAGE.tobytes()])
                request.inputs.add(name="image", datatype="FP32", shape=IMAGE.shape)
                calls = [infer.future(request.SerializeToString())]
                self.server.wait_until(lambda: self.server.metric("tenon_requests_running") == 1)
                calls += [infer.future(request.SerializeToString()) for _ in range(2)]
                self.server.wait_until(lambda: self.server.metric("tenon_queue_length") == 2)
            self.server.wait_until(lambda: self.server.metric("tenon_queue_length") == 0)

    def test_health_watch(self):
        with grpc.insecure_channel(self.address) as channel, triton.InferenceServerClient(self.address) as client:
            seen = queue.Queue()
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
            threading.Thread(target=self.collect, args=(watch, seen), daemon=True).start()
            self.assertEqual(b"\x08\x01", seen.get(timeout=10))
            with self.server.paused() as worker:
                pass
            client.unload_model("cnn")
            client.load_model("cnn")
            watch.cancel()
            # It may have seen the server without its model.
            rest = list(iter(lambda: seen.get(timeout=10), grpc.StatusCode.CANCELLED))
            self.assertIn(rest, [[], [b"\x08\x02"], [b"\x08\x02", b"\x08\x01"]])
            self.assertTrue(worker)

    @staticmethod
    def collect(watch, seen):
        try:
            for each in watch:
                seen.put(each)
        except grpc.RpcError as error:
            seen.put(error.code())


class Overload(ServingTest):
    def test_full_queue(self):
        """More than the queue holds is refused while those before it wait, by a code that no client sends again by itself; those that wait are answered."""
        with Server(self.folder / "models", "--queue", 2) as server, triton.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            results = queue.Queue()
            with server.paused():
                for i in range(3):
                    client.async_infer("cnn", [image_input()], lambda result, error: results.put(error or result))
                    server.wait_until(lambda: server.metric("tenon_queue_length") + server.metric("tenon_requests_running") == i + 1)
                for _ in range(20):
                    with self.assertRaisesRegex(InferenceServerException, "RESOURCE_EXHAUSTED.*TN0812"):
                        client.infer("cnn", [image_input()])
                self.assertTrue(results.empty())
            for _ in range(3):
                self.assertEqual((3, 10), results.get(timeout=10).as_numpy("logits").shape)


class End(ServingTest):
    def test_sigterm(self):
        """What was accepted is answered, watches and streams end, and nobody waits for clients that are idle."""
        with Server(self.folder / "models") as server, triton.InferenceServerClient(f"127.0.0.1:{server.port}") as client, grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            results, stream = queue.Queue(), queue.Queue()
            seen = queue.Queue()
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
            threading.Thread(target=Clients.collect, args=(watch, seen), daemon=True).start()
            self.assertEqual(b"\x08\x01", seen.get(timeout=10))
            client.start_stream(lambda result, error: stream.put(error or result))
            client.async_stream_infer("cnn", [image_input()])
            self.assertEqual((3, 10), stream.get(timeout=10).as_numpy("logits").shape)
            with server.paused():
                client.async_infer("cnn", [image_input()], lambda result, error: results.put(error or result))
                server.wait_until(lambda: server.metric("tenon_requests_running") == 1)
                for _ in range(2):
                    client.async_infer("cnn", [image_input()], lambda result, error: results.put(error or result))
                client.async_stream_infer("cnn", [image_input()])
                server.wait_until(lambda: server.metric("tenon_queue_length") == 3)
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(b"\x08\x02", seen.get(timeout=10))
                self.assertEqual(grpc.StatusCode.UNAVAILABLE, seen.get(timeout=10))
            for _ in range(3):
                self.assertEqual((3, 10), results.get(timeout=10).as_numpy("logits").shape)
            self.assertEqual((3, 10), stream.get(timeout=10).as_numpy("logits").shape)
            self.assertEqual(0, server.process.wait(10))


class Text(ServingTest):
    def test_page(self):
        """The example of docs/guides/serving.md as it stands there, but for the port."""
        page = (SOURCE / "docs/guides/serving.md").read_text()
        program = next(block for block in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if "tritonclient.grpc" in block)
        with Server(self.folder / "models") as server:
            done = subprocess.run([sys.executable, "-c", program.replace("localhost:8000", f"127.0.0.1:{server.port}")], capture_output=True, text=True, timeout=60)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, r"^\[\[ *-?\d")

    def test_reflection(self):
        """What a client without the .proto files learns: the services, and of each symbol a file by which calls can be made. Both packages."""
        file = SOURCE / "server/grpc/descriptors.binpb"
        subprocess.run([sys.executable, SOURCE / "scripts/grpc_descriptors.py", "--check"], check=True)
        pool = descriptor_pool.DescriptorPool()
        for each in descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes()).file:
            pool.Add(each)

        def of(name):
            return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

        with Server(self.folder / "models") as server, grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            for package in ["grpc.reflection.v1", "grpc.reflection.v1alpha"]:
                Ask, Answer = of(f"{package}.ServerReflectionRequest"), of(f"{package}.ServerReflectionResponse")
                call = channel.stream_stream(f"/{package}.ServerReflection/ServerReflectionInfo", Ask.SerializeToString, Answer.FromString)

                def ask(*requests):
                    answers = list(call(iter(requests), timeout=20))
                    self.assertEqual(list(requests), [answer.original_request for answer in answers])
                    return answers

                services = {each.name for each in ask(Ask(list_services="*"))[0].list_services_response.service}
                called = {route["path"].strip("/").split("/")[0] for route in routes() if route["transport"] == "grpc"}
                self.assertEqual(called, services)
                symbols = [*services, "inference.ModelInferRequest.InferInputTensor", "inference.GRPCInferenceService.ModelInfer", "inference.ModelInferRequest.model_name"]
                learnt = descriptor_pool.DescriptorPool()
                for answer in ask(*[Ask(file_containing_symbol=symbol) for symbol in symbols], Ask(file_by_filename="inference.proto", host="h")):
                    [given] = answer.file_descriptor_response.file_descriptor_proto
                    learnt.AddSerializedFile(given)
                Request = message_factory.GetMessageClass(learnt.FindMethodByName("inference.GRPCInferenceService.ModelReady").input_type)
                ready = channel.unary_unary(f"{SERVICE}ModelReady", Request.SerializeToString, bytes)
                self.assertEqual(b"\x08\x01", ready(Request(name="cnn"), timeout=20))
                unknown = ask(Ask(file_containing_symbol="no.Symbol"), Ask(file_by_filename="x.proto"), Ask(all_extension_numbers_of_type="no.Type"), Ask(), Ask(list_services=""))
                self.assertEqual([5, 5, 5, 12, 0], [answer.error_response.error_code for answer in unknown])
                self.assertEqual("inference.ModelReadyRequest", ask(Ask(all_extension_numbers_of_type="inference.ModelReadyRequest"))[0].all_extension_numbers_response.base_type_name)

    def test_proto(self):
        """Our text of the protocol against the messages of tritonclient: every field that it has has the same name, number and type."""
        compiled = self.folder / "proto.bin"
        folder = SOURCE / "server/grpc"
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--descriptor_set_out={compiled}", "inference.proto"], check=True)
        file = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file[0]
        theirs = {**messages.DESCRIPTOR.message_types_by_name, **model_config_pb2.DESCRIPTOR.message_types_by_name}
        compared = 0

        def compare(ours, their, where):
            nonlocal compared
            for field in ours.field:
                other = their.fields_by_name[field.name]
                self.assertEqual((field.number, field.type, field.label == field.LABEL_REPEATED), (other.number, other.type, other.is_repeated), f"{where}.{field.name}")
                compared += 1
            for nested in ours.nested_type:
                compare(nested, their.nested_types_by_name[nested.name], f"{where}.{nested.name}")

        for message in file.message_type:
            compare(message, theirs[message.name], message.name)
        self.assertGreater(compared, 150)
        for enum in [*file.enum_type]:
            self.assertEqual({value.name: value.number for value in enum.value}, {value.name: value.number for value in model_config_pb2.DataType.DESCRIPTOR.values})
        calls = messages.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
        table = {route["path"].rpartition("/")[2] for route in routes() if "GRPCInferenceService" in route["path"]}
        self.assertEqual(set(calls), table)
        self.assertLess({method.name for method in file.service[0].method}, table)


class Doors(ServingTest):
    """What tokens may call: the table of routes, for gRPC."""

    def test_every_route(self):
        file = self.folder / "tokens"
        file.write_text("".join(f"{token} {role}\n" for role, token in TOKENS.items()))
        file.chmod(0o600)
        table = [route for route in routes() if route["transport"] == "grpc"]
        self.assertGreater(len(table), 20)
        with Server(self.folder / "models", "--token-file", file) as server, grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            for route in table:
                for role, token in [("nobody", None), ("stranger", "x" * 16), *TOKENS.items()]:
                    with self.subTest(f"{route['path']} by {role}"):
                        metadata = [("authorization", f"Bearer {token}")] if token else []
                        known = role in TOKENS
                        allowed = route["role"] in ("open", role) or role == "admin"
                        try:
                            next(iter(channel.stream_stream(route["path"])(iter([b""]), metadata=metadata, timeout=20)), None)
                            status = grpc.StatusCode.OK
                        except grpc.RpcError as error:
                            status = error.code()
                        denied = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
                        if allowed:
                            self.assertNotIn(status, denied)
                        else:
                            self.assertEqual(grpc.StatusCode.PERMISSION_DENIED if known else grpc.StatusCode.UNAUTHENTICATED, status)


if __name__ == "__main__":
    unittest.main()
