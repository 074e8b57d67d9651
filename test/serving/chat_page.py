"""The box for chats on the page of `tenon serve`, in a real browser: an answer as it comes, its figures, what is stopped and what fails."""

import json
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import browser  # noqa: E402
from texts import TextsTest  # noqa: E402


class Chat(TextsTest):
    compiled = ("--pages", 520)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def setUp(self):
        self.browser.resize(1280, 800, False)
        self.browser.errors.clear()
        self.browser.requests.clear()
        self.address = f"http://127.0.0.1:{self.server.port}/"
        self.browser.open(self.address)
        self.await_text("#chat", "0 of 512 pages used")

    def tearDown(self):
        self.assertEqual([], [error for error in self.browser.errors if not re.search(r"status of 40[04] ", error)])  # of drift, and of the prompt that is too long
        self.assertEqual([], [address for address in self.browser.requests if not address.startswith(self.address)])

    def text(self, selector):
        """As it is shown."""
        return self.browser.evaluate(f"(() => {{ const element = document.querySelector({json.dumps(selector)}); return element?.checkVisibility() ? element.innerText : ''; }})()")

    def await_text(self, selector, part, seconds=30):
        end = time.monotonic() + seconds
        while part not in self.text(selector):
            self.assertLess(time.monotonic(), end, f"{selector} has no '{part}' but: {self.text(selector)}")
            time.sleep(0.05)

    def send(self, message, temperature=0):
        self.browser.evaluate(f"document.getElementById('chat-temperature').value = {temperature}; document.getElementById('chat-text').value = {json.dumps(message)}; document.getElementById('chat-form').requestSubmit(); true")

    def test_conversation(self):
        """A question, and once more after a new beginning, when the prompt is in the cache; the answer is that of the interface."""
        question = "Hello there, what is this long question about?"
        said = self.client.chat.completions.create(model="m", messages=[{"role": "user", "content": question}], temperature=0)
        for _ in range(2):
            self.browser.evaluate("document.getElementById('chat-clear').click(); true")
            self.send(question)
            self.await_text("#chat-counts", f"{said.usage.prompt_tokens:,} tokens in")
            self.assertRegex(self.text("#chat-counts"), r"first token [\d.]+ (µs|ms|s) · [\d.,]+ tokens/s · [\d,]+ tokens in, [1-9]\d* of them from the cache, [\d,]+ out")
            answers = self.browser.evaluate("[...document.querySelectorAll('#chat-log .assistant span')].map((each) => each.textContent)")
            self.assertEqual([said.choices[0].message.content], answers)
        self.await_text("#texts-list", "tokens/s; length")
        self.assertEqual("", self.text("#chat-problem"))

    def test_stop_and_errors(self):
        """What is stopped is computed no more; what fails is shown, and is not said again."""
        self.send("a" * 3000)
        self.await_text("#chat-problem", "TN0616")
        self.send("Hello", 2)
        self.browser.evaluate("document.getElementById('chat-stop').click(); true")
        self.await_text("#chat-problem", "Stopped")
        self.server.wait_until(lambda: self.server.metric("tenon_text_running", None) == 0)
        self.browser.evaluate("document.getElementById('chat-clear').click(); true")
        self.assertEqual("", self.text("#chat-log"))
        self.send("<img src=x onerror=window.broken=1>")
        self.await_text("#chat-counts", "out")
        self.assertIn("<img", self.text("#chat-log .user"))
        self.assertFalse(self.browser.evaluate("Boolean(window.broken)"))


if __name__ == "__main__":
    unittest.main()
