"""Language models over ModelStreamInfer, by tritonclient: pieces of texts, several requests on one stream, and what is refused.

Runs in .venv-serving; the model is made in .venv-language.
"""

import json
import pathlib
import queue
import subprocess
import tempfile
import unittest

import numpy as np
import tritonclient.grpc as triton
from server import SOURCE, TENON, Server, compile_cnn

WRITE = """
import sys
sys.path.insert(0, sys.argv[1])
import models
models.write(models.Model("llama", width=64, inner=96, head=16, tied=False, context=512), sys.argv[2])
"""
PIXELS = np.zeros((1, 1, 28, 28), np.float32)


def element(name, text):
    tensor = triton.InferInput(name, [1], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode() if isinstance(text, str) else text], dtype=np.object_))
    return tensor


class Texts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        folder = pathlib.Path(holder.name)
        subprocess.run([SOURCE / ".venv-language/bin/python", "-c", WRITE, SOURCE / "test/generate", folder / "m.gguf"], check=True)
        (folder / "models").mkdir()
        subprocess.run([TENON, "compile", folder / "m.gguf", "-o", folder / "models/m.tenon", "--pages", "40", "--quiet"], check=True)
        compile_cnn(folder / "models/cnn.tenon")
        cls.server = cls.enterClassContext(Server(folder / "models", "--threads", 1))

    def setUp(self):
        self.client = self.enterContext(triton.InferenceServerClient(f"127.0.0.1:{self.server.port}"))
        self.answers = queue.Queue()
        self.client.start_stream(lambda result, error: self.answers.put((result, error)))

    def ask(self, tensor, **options):
        self.client.async_stream_infer("m", [tensor], **options)

    def answer(self):
        """The next reply: its id, text and parameters."""
        result, error = self.answers.get(timeout=30)
        self.assertIsNone(error)
        response = result.get_response()
        [text] = result.as_numpy("text_output")
        return response.id, text.decode(), {key: getattr(value, value.WhichOneof("parameter_choice")) for key, value in response.parameters.items()}

    def whole(self):
        """Of one request."""
        text, parameters = "", {}
        while not parameters.get("triton_final_response"):
            _, piece, parameters = self.answer()
            text += piece
        return text, parameters

    def refused(self, part, *arguments, **options):
        self.ask(*arguments, **options)
        error = None
        while not error:  # pieces may have come before
            _, error = self.answers.get(timeout=30)
        self.assertIn(part, error.message())

    def openai(self, path, **body):
        status, answer = self.server.post(path, {"model": "m", **body})
        self.assertEqual(200, status, answer)
        return answer

    def test_pieces(self):
        """The pieces are those of OpenAI's interface: one a token, then what was counted."""
        options = {"temperature": 1.3, "seed": 5, "max_tokens": 12, "top_k": 40}
        said = self.openai("/v1/completions", prompt="The", **options)
        self.ask(element("text_input", "The"), request_id="7", parameters=options)
        pieces = [self.answer() for _ in range(said["usage"]["completion_tokens"])]
        self.assertEqual(said["choices"][0]["text"], "".join(text for _, text, _ in pieces))
        self.assertEqual({"7"}, {identity for identity, _, _ in pieces})
        last = pieces[-1][2]
        self.assertEqual([False] * (len(pieces) - 1) + [True], [parameters["triton_final_response"] for *_, parameters in pieces])
        usage = said["usage"]
        self.assertEqual([usage["prompt_tokens"], usage["completion_tokens"], said["choices"][0]["finish_reason"]], [last["prompt_tokens"], last["completion_tokens"], last["finish_reason"]])
        self.assertNotIn("finish_reason", pieces[0][2])
        self.assertLess(last["logprob"], 0)

    def test_chat(self):
        messages = [{"role": "user", "content": "\u00e9t\u00e9"}]
        said = self.openai("/v1/chat/completions", messages=messages, temperature=0, max_tokens=20)
        self.ask(element("messages", json.dumps(messages)), parameters={"temperature": 0, "max_tokens": 20})
        self.assertEqual(said["choices"][0]["message"]["content"], self.whole()[0])

    def test_format(self):
        """Of chats and of texts: the answer is a value of its schema, and the one of OpenAI's interface."""
        schema = {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["kind", "count"]}
        options = {"temperature": 1, "seed": 3, "max_tokens": 300}
        messages = [{"role": "user", "content": "Hello"}]
        asked = {"/v1/chat/completions": ({"messages": messages}, element("messages", json.dumps(messages))), "/v1/completions": ({"prompt": "a"}, element("text_input", "a"))}
        for path, (body, tensor) in asked.items():
            response_format = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
            [choice] = self.openai(path, **body, **options, response_format=response_format)["choices"]
            self.ask(tensor, parameters={**options, "response_format": json.dumps(response_format)})
            text, last = self.whole()
            self.assertEqual(choice["message"]["content"] if "message" in choice else choice["text"], text)
            self.assertEqual({"kind", "count"}, set(json.loads(text)))
            self.assertEqual("stop", last["finish_reason"])
            self.refused("'#/properties/a/format' is 'regex'", tensor, parameters={"response_format": json.dumps({"type": "json_schema", "json_schema": {"schema": {"properties": {"a": {"type": "string", "format": "regex"}}}}})})
            self.refused("'response_format' must be an object", tensor, parameters={"response_format": '"json"'})

    def test_compressed(self):
        """Messages in gzip and deflate are those without; what is no gzip is refused by name."""
        options = {"temperature": 0, "max_tokens": 12}
        said = self.openai("/v1/completions", prompt="a" * 300, **options)["choices"][0]["text"]
        for algorithm in ("gzip", "deflate"):
            self.client.stop_stream()
            self.client.start_stream(lambda result, error: self.answers.put((result, error)), compression_algorithm=algorithm)
            self.ask(element("text_input", "a" * 300), parameters=options)
            self.assertEqual(said, self.whole()[0])
            self.refused("'temperature' must be a number from 0 to 2", element("text_input", "a"), parameters={"temperature": 3})

    def test_many_requests_of_a_stream(self):
        """Requests of one stream run together; their pieces are told apart by their ids, and an error of one ends no other."""
        prompts = {str(i): f"{i} " * (i + 1) for i in range(12)}
        alone = {identity: self.openai("/v1/completions", prompt=prompt, temperature=0, max_tokens=30)["choices"][0]["text"] for identity, prompt in prompts.items()}
        for identity, prompt in prompts.items():
            self.ask(element("text_input", prompt), request_id=identity, parameters={"temperature": 0, "max_tokens": 30})
        texts, order = dict.fromkeys(prompts, ""), []
        for left in range(len(prompts), 0, -1):
            final = False
            while not final:
                identity, text, parameters = self.answer()
                texts[identity] += text
                order.append(identity)
                final = parameters["triton_final_response"]
        self.assertEqual(alone, texts)
        self.assertNotEqual(order, sorted(order, key=int))

    def test_choices(self):
        said = self.openai("/v1/completions", prompt="a", n=3, temperature=1, seed=1, max_tokens=10)
        self.ask(element("text_input", "a"), parameters={"n": 3, "temperature": 1, "seed": 1, "max_tokens": 10})
        texts, parameters = ["", "", ""], {}
        while not parameters.get("triton_final_response"):
            _, text, parameters = self.answer()
            texts[parameters["index"]] += text
        self.assertEqual([choice["text"] for choice in said["choices"]], texts)

    def test_plain_models(self):
        """Other models answer each request of the same stream, in order."""
        image = triton.InferInput("image", [1, 1, 28, 28], "FP32")
        image.set_data_from_numpy(PIXELS)
        for i in range(20):
            self.client.async_stream_infer("cnn", [image], request_id=str(i))
        replies = [self.answers.get(timeout=30) for _ in range(20)]
        self.assertEqual([str(i) for i in range(20)], [result.get_response().id for result, _ in replies])
        self.assertEqual({True}, {result.get_response().parameters["triton_final_response"].bool_param for result, _ in replies})

    def test_refused(self):
        """What is wrong is refused by name, and the stream goes on."""
        prompt = element("text_input", "a")
        self.refused("'temperature' must be a number from 0 to 2", prompt, parameters={"temperature": 3})
        self.refused("the field 'no_such' is not supported", prompt, parameters={"no_such": 1})
        self.refused("TN0616", element("text_input", "a" * 600))
        self.refused("one element of BYTES", triton_pair())
        self.refused("JSON", element("messages", "{"))
        self.refused("not UTF-8", element("text_input", b"\xff"))
        self.refused("leave out model_version", prompt, model_version="1")
        self.client.async_stream_infer("other", [prompt])
        self.assertIn("TN0810", self.answers.get(timeout=30)[1].message())
        self.client.async_stream_infer("cnn", [prompt])
        self.assertIn("TN0818", self.answers.get(timeout=30)[1].message())
        self.refused("TN0813", prompt, timeout=2_000, parameters={"max_tokens": 400, "logit_bias": '{"257": -100}'})
        self.ask(prompt, parameters={"max_tokens": 3, "stop": "zz", "logit_bias": '{"5": 1}'})
        self.assertEqual(3, self.whole()[1]["completion_tokens"])

    def test_client_goes(self):
        """Answers of a client that goes end, and are counted as cancelled. On a busy machine they may end by themselves before the client has gone: then it asks again."""
        cancelled = lambda: self.server.metric("tenon_requests_total", 'model="m",outcome="cancelled"')
        for _ in range(20):
            self.ask(element("text_input", "a"), parameters={"n": 16, "max_tokens": 400, "logit_bias": '{"257": -100}'})
            self.answer()
            self.client.stop_stream(cancel_requests=True)
            self.server.wait_until(lambda: self.server.metric("tenon_text_running", 'model="m"') == 0)
            self.client.start_stream(lambda *_: None)
            if cancelled() == 1:
                break
        self.assertEqual(1, cancelled())


def triton_pair():
    """Two prompts in one tensor."""
    tensor = triton.InferInput("text_input", [2], "BYTES")
    tensor.set_data_from_numpy(np.array([b"a", b"b"], dtype=np.object_))
    return tensor


if __name__ == "__main__":
    unittest.main()
