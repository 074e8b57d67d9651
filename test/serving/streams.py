"""Many streams of language models at once: workers that are killed, clients that vanish, pages that run short, priorities, guesses, traces.

What an answer says is compared with what it says alone.
"""

import concurrent.futures
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import threading
import unittest

import openai
from receiver import Receiver
from server import TENON, Server
from texts import CHATS, LONG, OPENINGS, POSITIONS, SAMPLED, TextsTest, compile_model, models

PAGES = POSITIONS // 32 + 6  # one sequence as long as may be, and a little
NO_END = {"257": -100}  # the token that would end an answer


class Guesses(unittest.TestCase):
    """Texts with guesses of the next tokens are those without."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name) / "models"
        cls.folder.mkdir()

    def texts(self, engine, *arguments):
        """Of eight users at once, and how many tokens were guessed and how many of them were right."""
        with Server(engine, "--name", "m", "--threads", 1, *arguments) as server:
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0, timeout=60)
            ask = lambda prompt, options: client.completions.create(model="m", prompt=prompt, **{"temperature": 0, "max_tokens": 40, **options}).choices[0].text
            asked = [(prompt, options) for prompt in OPENINGS for options in ({}, SAMPLED)]
            with concurrent.futures.ThreadPoolExecutor(8) as users:
                texts = list(users.map(lambda each: ask(*each), asked))
            client.close()
            return texts, *(server.metric(f"tenon_text_{name}_tokens_total", None) for name in ("draft", "accepted"))

    def check(self, name, *compiled):
        compile_model(self.folder, name, *compiled)
        compile_model(self.folder, f"{name}-small", *compiled, layers=1)
        engine, small = self.folder / f"{name}.tenon", self.folder / f"{name}-small.tenon"
        plain, *guessed = self.texts(engine)
        self.assertEqual([0, 0], guessed)
        for arguments, least in ((("--draft-tokens", 3), 0.05), (("--draft-model", small), 0), (("--draft-model", engine, "--draft-tokens", 3), 0.75)):
            texts, draft, accepted = self.texts(engine, *arguments)
            self.assertEqual(plain, texts, arguments)
            self.assertGreater(draft, 50)
            self.assertGreaterEqual(accepted, least * draft, arguments)
            self.assertLess(accepted, draft)

    def test_pages(self):
        self.check("paged", "--pages", 520)

    def test_sequences(self):
        self.check("plain")

    def test_refused(self):
        compile_model(self.folder, "model", "--pages", 80)
        compile_model(self.folder, "fewer", "--pages", 70)
        config = self.folder / "named"
        (config / "1").mkdir(parents=True)
        (config / "1/model.tenon").symlink_to(self.folder / "model.tenon")
        (config / "1/small.tenon").symlink_to(self.folder / "fewer.tenon")
        (config / "config.pbtxt").write_text('parameters { key: "draft_model" value { string_value: "small.tenon" } }')
        # Where signatures are asked for, a draft model needs one as well.
        key, public = self.folder.parent / "key.pem", self.folder.parent / "public.pem"
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], check=True)
        subprocess.run(["openssl", "ec", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
        model, small = self.folder / "model.tenon", self.folder / "fewer.tenon"
        sign = lambda engine: subprocess.run([TENON, "sign", engine, "--key", key, "--quiet"], check=True)
        sign(model)
        with Server(model, "--require-signature", public, "--draft-model", model, "--draft-tokens", 2) as server:
            self.assertEqual(200, server.get("/v2/models/model/ready")[0])
        with Server(model, "--require-signature", public, "--draft-model", small, waits=False) as server:
            server.wait_until(lambda: any("TN1015" in line and "fewer.tenon" in line for line in server.log))
        with Server(self.folder, waits=False) as server:
            server.wait_until(lambda: any("the draft model has 70 pages, and the model 80" in line for line in server.log))
            self.assertEqual(200, server.get("/v2/models/model/ready")[0])


class Urgent(TextsTest):
    """A server whose pages are few."""

    compiled = ("--pages", PAGES)
    arguments = ("--urgent", "all")

    @classmethod
    def make(cls):
        compile_model(cls.folder, "m", *cls.compiled, layers=24)  # whose answers take a while

    def lost(self):
        return self.server.metric("tenon_text_preemptions_total", None)

    def ask_long(self, prompt, tokens, **options):
        return self.complete(prompt, max_tokens=tokens, logit_bias=NO_END, **options).choices[0].text

    def test_priorities(self):
        """A request that is more urgent takes the pages of one that is less, which ends with the text that it has alone, and the log says so."""
        patient, urgent = "patient " * 100, "urgent " * 205
        alone = [self.ask_long(patient, 1200), self.ask_long(urgent, 20)]
        with concurrent.futures.ThreadPoolExecutor(2) as users:
            before = self.lost()
            first = users.submit(self.ask_long, patient, 1200)
            self.server.wait_until(lambda: self.server.metric("tenon_text_pages_used", None) > 30)
            second = users.submit(self.ask_long, urgent, 20, extra_body={"priority": -1})
            self.assertEqual(alone[1], second.result())
            self.assertFalse(first.done())
            self.assertEqual(alone[0], first.result())
        self.assertGreater(self.lost(), before)
        line = self.server.logged("gives way")[0]
        self.assertRegex(line, r"model 'm' version 1: an answer of cmpl-\w+ gives way to one of cmpl-\w+, since pages are short by \d+; \d+ tokens are computed again")

    def test_pages_run_short(self):
        """Eight answers for which the pages do not do: each is the one that it has alone, and the pages come back."""
        prompts = [f"{i} a prompt of its own " * 12 for i in range(8)]
        alone = [self.ask_long(prompt, 400) for prompt in prompts]
        before = self.lost()
        with concurrent.futures.ThreadPoolExecutor(8) as users:
            self.assertEqual(alone, list(users.map(lambda prompt: self.ask_long(prompt, 400), prompts)))
        self.assertGreater(self.lost(), before)
        self.server.wait_until(lambda: self.server.metric("tenon_text_pages_used", None) == 0)

    def test_timeout(self):
        """An answer that is not whole in its time ends with an error, whole or in chunks."""
        with self.assertRaises(openai.APIStatusError) as caught:
            self.ask_long("a", LONG, extra_body={"timeout": 0.005})
        self.assertEqual((504, "TN0813"), (caught.exception.status_code, caught.exception.code))
        with self.assertRaises(openai.APIError) as caught:
            list(self.complete("a", max_tokens=LONG, logit_bias=NO_END, stream=True, extra_body={"timeout": 0.01}))
        self.assertRegex(caught.exception.message, rf"TN0813: request \d+ is at its deadline with \d+ of up to {LONG} tokens")
        for field, values in {"timeout": (0, -1, "1", 1e9), "priority": (1.5, "high", 1001)}.items():
            for value in values:
                self.refused(openai.BadRequestError, field, self.complete, extra_body={field: value})

    def test_special_tokens(self):
        """Prompts of nothing but control tokens, as tokens and as their texts, as long as may be."""
        for prompt in ([256] * 500, [256, 257, 258] * (POSITIONS // 3), [257], "<|start|>" * 100):
            answer = self.complete(prompt, max_tokens=8)
            self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
        self.chat([{"role": "user", "content": "<|end|><|start|>system\n" * 50}], max_tokens=8)
        self.refused(openai.BadRequestError, None, self.complete, prompt=[0, models.VOCABULARY])


class Ends(TextsTest):
    """A server with the model `m` in a worker of its own, and `other` in another."""

    compiled = ("--pages", 130)
    arguments = ("--queue", 64)

    @classmethod
    def make(cls):
        version = cls.folder / "own/1"
        version.mkdir(parents=True)
        compile_model(cls.folder, "m", *cls.compiled, layers=16)  # whose answers take a while
        (cls.folder / "m.tenon").rename(version / "model.tenon")
        (cls.folder / "own").rename(cls.folder / "m")
        (cls.folder / "m/config.pbtxt").write_text('parameters { key: "worker" value { string_value: "own" } }')
        compile_model(cls.folder, "other", layers=16)

    def held(self):
        return [self.server.metric(f"tenon_text_{name}", 'model="m",version="1"') for name in ("running", "waiting", "pages_used")]

    def other(self):
        return self.client.completions.create(model="other", prompt="a", temperature=0, max_tokens=LONG, logit_bias=NO_END, stream=True)

    def test_worker_killed(self):
        """Of 32 streams, each ends with the reason when their worker is killed; another model's stream goes on; then all is as before."""
        alone = self.chat(max_tokens=30).choices[0].message.content
        other = "".join(chunk.choices[0].text for chunk in self.other())
        streams, begun = 32, 8
        started = threading.Barrier(begun + 1, timeout=60)

        def read(number):
            stream = self.chat([{"role": "user", "content": str(number)}], max_tokens=LONG, logit_bias=NO_END, stream=True)
            started.wait()
            with self.assertRaises(openai.APIError) as caught:
                for _ in stream:
                    pass
            return caught.exception

        def read_waiting(number):
            """Of a stream that has not begun, the request has the error."""
            with self.assertRaises(openai.APIError) as caught:
                list(self.chat([{"role": "user", "content": str(number)}], max_tokens=LONG, logit_bias=NO_END, stream=True))
            return caught.exception

        with concurrent.futures.ThreadPoolExecutor(streams) as users:
            worker = self.server.worker("m")
            reads = [users.submit(read, i) for i in range(begun)]
            self.server.wait_until(lambda: self.held()[0] == begun)
            self.server.stop(worker)
            started.wait()
            reads += [users.submit(read_waiting, i) for i in range(begun, streams)]
            self.server.wait_until(lambda: self.server.metric("tenon_requests_running", 'model="m",version="1"') == streams)
            survivor = self.other()
            begin = next(survivor).choices[0].text
            self.assertEqual(1, self.server.metric("tenon_text_running", 'model="other",version="1"'))
            os.kill(worker, signal.SIGKILL)
            for each in reads:
                self.assertIn("TN0814", each.result().message)
            self.assertEqual(other, begin + "".join(chunk.choices[0].text for chunk in survivor))
        self.assertEqual(alone, self.chat(max_tokens=30).choices[0].message.content)
        self.server.wait_until(lambda: self.held() == [0, 0, 0])
        self.assertEqual(1, self.server.metric("tenon_worker_losses_total", None))

    def test_clients_vanish(self):
        """Hundreds of requests whose clients read all, a part or nothing: pages come back, and the next answers are the same."""
        alone = self.chat(max_tokens=30).choices[0].message.content

        def visit(seed):
            chance = random.Random(seed)
            prompt = "shared beginning " * chance.randint(0, 8) + str(chance.randint(0, 20))
            stream = self.complete(prompt, max_tokens=chance.randint(1, 40), n=chance.choice((1, 1, 3)), stream=True, temperature=1)
            most = chance.choice((0, 1, 5, 1000))
            for _, _ in zip(range(most), stream):
                pass
            stream.close()

        requests = int(os.environ.get("TENON_REQUESTS", "300"))
        with concurrent.futures.ThreadPoolExecutor(12) as users:
            for each in users.map(visit, range(requests)):
                pass
        self.server.wait_until(lambda: self.held() == [0, 0, 0])
        self.assertEqual(alone, self.chat(max_tokens=30).choices[0].message.content)


class Traces(TextsTest):
    @classmethod
    def make(cls):
        cls.receiver = cls.enterClassContext(Receiver())
        cls.arguments = ("--otlp", cls.receiver.url, "--trace-share", 1)

    def test_spans(self):
        """Of a request: queue, prefill and decode, with the tokens; of one that fails, that it did. The page's status has the same numbers."""
        usage = self.chat(n=2).usage
        list(self.complete("a" * 40, stream=True, max_tokens=5))
        with self.assertRaises(openai.BadRequestError):
            self.complete("a" * (POSITIONS + 10))
        self.server.wait_until(lambda: len([span for span in self.receiver.spans() if "parentSpanId" not in span]) == 3)
        roots = {span["name"] + str(span["status"].get("code", "")): span for span in self.receiver.spans() if "parentSpanId" not in span}
        self.assertEqual({"chat", "text_completion", "text_completion2"}, set(roots))
        chat = roots["chat"]
        self.assertEqual([usage.prompt_tokens, 24, "length", "m"], [int(chat["attributes"]["gen_ai.usage.input_tokens"]), int(chat["attributes"]["gen_ai.usage.output_tokens"]),
                                                                   chat["attributes"]["gen_ai.response.finish_reasons"], chat["attributes"]["tenon.model"]])
        self.assertEqual("TN0616", roots["text_completion2"]["attributes"]["gen_ai.response.finish_reasons"])
        for root in (chat, roots["text_completion"]):
            stages = sorted((span for span in self.receiver.spans() if span.get("parentSpanId") == root["spanId"]), key=lambda span: span["start"])
            self.assertEqual(["queue", "prefill", "decode"], [span["name"] for span in stages])
            self.assertEqual([root["start"], root["end"]], [stages[0]["start"], stages[2]["end"]])
            self.assertEqual([stages[0]["end"], stages[1]["end"]], [stages[1]["start"], stages[2]["start"]])
        _, status = self.server.get("/v2/tenon/status")
        newest = json.loads(status)["texts"]
        self.assertEqual([("TN0616", 0), ("length", 5), ("length", 24)], [(each["end"], each["answer_tokens"]) for each in newest])
        self.assertEqual(chat["attributes"]["gen_ai.response.id"], newest[2]["id"])
        self.assertLessEqual(newest[2]["queue_ms"], newest[2]["first_token_ms"])
        self.assertLess(newest[2]["first_token_ms"], newest[2]["total_ms"])


if __name__ == "__main__":
    unittest.main()
