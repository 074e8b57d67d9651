"""How long pushes take while gc removes many objects of a store that takes its time: by hand, for the ledger.

    python test/registry/collect_load.py [OBJECTS [MILLISECONDS]]

The store is a dictionary: rclone reads its folder again for each object that it removes.
"""

import hashlib
import http.server
import pathlib
import subprocess
import re
import sys
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import places  # noqa: E402
import shared  # noqa: E402

OBJECTS, PAUSE = (int(text) for text in (sys.argv[1:] + ["10000", "50"][len(sys.argv) - 1 :])[:2])


class Store(http.server.ThreadingHTTPServer):
    """Objects by their keys; each request takes `pause` seconds."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Request)
        self.objects, self.pause, self.posts = {}, 0, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(self.server.pause)
        path, _, query = self.path.partition("?")
        objects, key, asked = self.server.objects, path.removeprefix("/models/"), urllib.parse.parse_qs(query, keep_blank_values=True)
        status, reply = 200, b""
        if "list-type" in asked:
            keys = sorted(each for each in objects if each.startswith(asked["prefix"][0]) and each > asked.get("start-after", [""])[0])
            rows = "".join(f"<Contents><Key>{each}</Key><Size>{len(objects[each])}</Size></Contents>" for each in keys[:1000])
            reply = f"<ListBucketResult>{rows}<IsTruncated>{str(len(keys) > 1000).lower()}</IsTruncated></ListBucketResult>".encode()
        elif "delete" in asked:
            self.server.posts += 1
            for each in re.findall("<Key>(.*?)</Key>", body.decode()):
                objects.pop(each, None)
        elif self.command == "PUT":
            objects[key] = body
        elif self.command in ("GET", "HEAD") and not asked:
            status, reply = (200, objects[key]) if key in objects else (404, b"")
        self.send_response(status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer


@unittest.skipIf(shared.missing(), shared.missing())
class Load(places.InServers, unittest.TestCase):
    def pushes(self, number):
        """So many, each with its own bytes; how long each took."""
        times = []
        for _ in range(number):
            (self.folder / "c.txt").write_text(str(time.monotonic()))
            start = time.monotonic()
            self.push("other", "c.txt")
            times.append(time.monotonic() - start)
        return times

    def test_pushes(self):
        store = Store()
        self.addCleanup(store.server_close)
        self.addCleanup(store.shutdown)
        self.environment = self.environment | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{store.server_port}"}
        kept = self.push("data")["hash"]
        for i in range(OBJECTS):
            store.objects[f"{self.name}/{hashlib.sha256(str(i).encode()).hexdigest()}"] = b"x"
        store.pause = PAUSE / 1000
        alone = self.pushes(10)
        start = time.monotonic()
        gc = subprocess.Popen(self.command("gc", "--json"), env=self.environment, stdout=subprocess.PIPE, text=True)
        beside = []
        while gc.poll() is None:
            beside += self.pushes(1)
        took = time.monotonic() - start
        self.assertIn(f'"deleted_files": {OBJECTS}', gc.stdout.read())
        store.pause = 0
        self.assertIn(f"{self.name}/{kept}", store.objects)
        self.assertSound()
        for what, times in (("alone", alone), (f"beside a gc of {OBJECTS} objects, {store.posts} requests to remove, {took:.2f} s", beside)):
            print(f"{len(times)} pushes {what}: median {sorted(times)[len(times) // 2]:.3f} s, longest {max(times):.3f} s", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
