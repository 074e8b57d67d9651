"""Clients that ask models one after the other for as long as a test goes on, and keep what they were answered and how long that took."""

import http.client
import json
import threading
import time

from server import request

BODY = json.dumps(request()).encode()


class Load:
    """`threads` clients of a model, each with a connection of its own; `answers` has (start, seconds, status, body) of each request."""

    def __init__(self, server, model, threads=2, body=BODY):
        self.server, self.path, self.body = server, f"/v2/models/{model}/infer", body
        self.answers, self.ends = [], threading.Event()
        self.threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(threads)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a request was not answered"

    def _ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        while not self.ends.is_set():
            start = time.monotonic()
            try:
                connection.request("POST", self.path, self.body)
                reply = connection.getresponse()
                status, body = reply.status, reply.read()
            except (OSError, http.client.HTTPException) as error:  # no answer at all
                status, body = 0, repr(error).encode()
                connection.close()
            self.answers.append((start, time.monotonic() - start, status, body))
        connection.close()

    def since(self, start, end=float("inf")):
        """Answers that came from `start` to `end`."""
        return [answer for answer in list(self.answers) if start <= answer[0] + answer[1] <= end]

    def wrong(self):
        """What is neither an answer of the model nor TN0814."""
        return [answer for answer in self.answers if answer[2] != 200 and b"TN0814" not in answer[3]]

    def lost(self):
        return [answer for answer in self.answers if b"TN0814" in answer[3]]
