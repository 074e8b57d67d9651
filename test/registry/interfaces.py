"""The registry to programs: search, and /v2/registry of a server that has no models: who may do what, what comes back, and what hostile requests leave behind."""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import socket
import sys
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import places  # noqa: E402
import shared  # noqa: E402
from server import Server  # noqa: E402


class Search:
    """Of a registry in any place."""

    def setUp(self):
        super().setUp()
        for team, stage in (("vision", "beta"), ("vision", "live"), ("text", "beta")):
            (self.folder / "c.txt").write_text(f"{self.name} {team} {stage}" * 10)
            self.get("push", f"{team}-{stage}", "c.txt", "--kind", "report", "--meta", f"team={team}", "--meta", f"stage={stage}")
        self.get("push", "numbers", "a.txt", "--kind", "data", "--meta", "team=vision")
        self.get("gate", "vision-beta@live", "--rule", "size <= 10KiB")
        self.get("gate", "vision-beta", "live")
        self.get("promote", "vision-beta:1", "live")

    def found(self, *arguments, **more):
        return [row["name"] for row in self.get("search", *arguments, **more)["versions"]]

    def test_conditions(self):
        for arguments, names in (
                ((), ["numbers", "text-beta", "vision-live", "vision-beta"]),
                (("team=vision",), ["numbers", "vision-live", "vision-beta"]),
                (("team=vision", "stage=beta"), ["vision-beta"]),
                (("team=vision", "--kind", "report"), ["vision-live", "vision-beta"]),
                (("--kind", "data"), ["numbers"]),
                (("--name", "vision-*"), ["vision-live", "vision-beta"]),
                (("--name", "*-b?ta", "team=text"), ["text-beta"]),
                (("--name", "Vision-*"), []),
                (("--name", "numbers"), ["numbers"]),
                (("--name", "number"), []),
                (("--alias", "live"), ["vision-beta"]),
                (("size <= 10KiB",), ["vision-beta"]),
                (("size>=1B", "team=vision"), ["vision-beta"]),
                (("size >= 10KiB",), []),
                (("--since", "1h"), ["numbers", "text-beta", "vision-live", "vision-beta"]),
                (("--before", "2026-01-01"), []),
                (("team=vision", "--since", "2026-01-01T00:00:00Z", "--most", "1"), ["numbers"])):
            with self.subTest(arguments):
                self.assertEqual(names, self.found(*arguments))
        row = self.get("search", "--alias", "live")["versions"][0]
        self.assertEqual((["live"], "vision"), (row["aliases"], row["facts"]["meta"]["team"]))
        self.assertEqual(row["bytes"], row["metrics"]["size"])

    def test_wrong_conditions(self):
        for code, arguments in (("TN0105", ("vision",)), ("TN0105", ("=vision",)), ("TN1009", ("speed >= 3",)), ("TN1009", ("top1 >= champion",)), ("TN1009", ("top1 >= 3 miles",)),
                                ("TN0105", ("--since", "tomorrow")), ("TN0105", ("--since", "2026-13-01")), ("TN0105", ("--after", "x")), ("TN0105", ("--after", "1:2"))):
            with self.subTest(arguments):
                self.refused(code, "search", *arguments)
        for hostile in ("team=' OR 1=1 --", "team=%", "'=x"):
            self.assertEqual([], self.found(hostile))

    def test_pages(self):
        names, after = [], []
        while True:
            page = self.get("search", "--most", "1", *after)
            names += [row["name"] for row in page["versions"]]
            if not page["next"]:
                break
            after = ["--after", page["next"]]
        self.assertEqual(["numbers", "text-beta", "vision-live", "vision-beta"], names)

    def test_deleted_and_old(self):
        """What gc deletes is not found; a registry from before there was search gets its tables, as full as they have to be."""
        (self.folder / "d.txt").write_text("newer")
        self.get("push", "numbers", "d.txt", "--kind", "data", "--meta", "team=vision")
        self.get("gc", "--keep", "1")
        self.assertEqual([2], [row["version"] for row in self.get("search", "--kind", "data")["versions"]])
        before = self.get("search")
        self.sql("DROP TABLE tag")
        self.sql("DROP TABLE metric")
        self.assertEqual(before, self.get("search"))
        self.assertSound()


class SearchInFolder(Search, places.InFolder, unittest.TestCase):
    pass


@unittest.skipIf(shared.missing(), shared.missing())
class SearchInServers(Search, places.InServers, unittest.TestCase):
    pass


class Http(places.InFolder, unittest.TestCase):
    """Over a server that follows no model."""

    def setUp(self):
        super().setUp()
        self.push("cnn", meta=())
        self.scratch = self.folder / "tmp"
        self.scratch.mkdir(exist_ok=True)
        self.tokens = {}

    def push(self, name, file="a.txt", meta=(), **more):
        return self.get("push", name, file, "--kind", "report", *[word for each in meta for word in ("--meta", each)], **more)

    def make_tokens(self):
        root = self.get("token", "add", "root", "--role", "admin")["token"]
        self.tokens = {"admin": root, **{role: self.get("token", "add", f"a-{role}", "--role", role, token=root)["token"] for role in ("read", "push", "promote")}}

    @contextlib.contextmanager
    def serving(self, *arguments):
        keep = dict(os.environ)
        os.environ.update(self.environment, TMPDIR=str(self.scratch))
        try:
            server = RegistryServer(self.registry, *arguments)
        finally:
            os.environ.clear()
            os.environ.update(keep)
        with server:
            yield server

    def ask(self, server, method, path, body=None, token=None, **query):
        target = f"/v2/registry{path}" + (f"?{urllib.parse.urlencode(query, doseq=True)}" if query else "")
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        status, headers, answer = server.call(method, target, data if method == "GET" or data is not None else b"", {"Authorization": f"Bearer {token}"} if token else {})
        return status, json.loads(answer) if headers["Content-Type"] == "application/json" else answer

    def good(self, *arguments, **more):
        status, value = self.ask(*arguments, **more)
        self.assertEqual(200, status, value)
        return value

    def bad(self, code, status, *arguments, **more):
        got, value = self.ask(*arguments, **more)
        self.assertEqual((status, code), (got, value["error"][:6]), value)

    def test_everything(self):
        with self.serving() as server:
            content = b"made by a program\n" * 10000
            pushed = self.good(server, "POST", "/objects/cnn/versions", content, file="b.txt", kind="report", meta=["team=vision", "stage=beta"], note="the second")
            self.assertEqual((2, hashlib.sha256(content).hexdigest(), False), (pushed["version"], pushed["hash"], pushed["existing"]))
            again = self.good(server, "POST", "/objects/cnn/versions", content, file="b.txt", kind="report", meta=["team=vision", "stage=beta"], sha256=pushed["hash"])
            self.assertEqual((2, True), (again["version"], again["existing"]))
            self.assertEqual(["cnn"], [row["name"] for row in self.good(server, "GET", "/objects")["objects"]])
            self.assertEqual([2, 1], [row["version"] for row in self.good(server, "GET", "/objects/cnn")["versions"]])
            self.assertEqual("the second", self.good(server, "GET", "/objects/cnn/versions/2")["note"])
            self.assertEqual(2, self.good(server, "GET", "/objects/cnn/versions/newest")["version"])
            self.assertEqual([2], [row["version"] for row in self.good(server, "GET", "/search", where=["team=vision"], since="2026-01-01")["versions"]])
            self.assertEqual(content, self.good(server, "GET", "/objects/cnn/versions/2/file"))
            _, headers, _ = server.call("HEAD", "/v2/registry/objects/cnn/versions/2/file")
            self.assertEqual((f'"{pushed["hash"]}"', str(len(content))), (headers["ETag"], headers["Content-Length"]))
            self.assertEqual({"name": "cnn", "alias": "live", "from": None, "to": 1}, self.good(server, "POST", "/objects/cnn/aliases/live", {"version": 1}))
            self.bad("TN1006", 409, server, "POST", "/objects/cnn/aliases/live", {"version": 2, "expected": 2})
            self.assertEqual(2, self.good(server, "POST", "/objects/cnn/aliases/live", {"version": 2, "expected": 1, "reason": "better"})["to"])
            self.assertEqual(2, self.good(server, "GET", "/objects/cnn/aliases/live")["version"])
            self.assertEqual(content, self.good(server, "GET", "/objects/cnn/aliases/live/file"))
            self.assertEqual(1, self.good(server, "POST", "/objects/cnn/aliases/live/rollback", {"reason": "worse"})["to"])
            self.assertEqual(["size <= 1MiB"], self.good(server, "POST", "/objects/cnn/aliases/live/rules", {"rules": ["size <= 1MiB"]})["rules"])
            self.assertEqual(["size <= 1MiB"], self.good(server, "GET", "/objects/cnn/aliases/live/rules")["rules"])
            self.bad("TN1007", 409, server, "POST", "/objects/cnn/aliases/live", {"version": 2})
            self.assertEqual(["rules", "rollback", "promote"], [row["action"] for row in self.good(server, "GET", "/objects/cnn/history", alias="live", most=3)["events"]])
            self.assertEqual("rules", self.good(server, "GET", "/history", most=1)["events"][0]["action"])
        self.assertSound()

    def test_roles(self):
        """The caller's token is one of the registry's, and its role decides; the server's own stands in for nobody."""
        self.make_tokens()
        self.environment["TENON_REGISTRY_TOKEN"] = self.tokens["admin"]
        self.addCleanup(self.environment.pop, "TENON_REGISTRY_TOKEN")
        asks = {
            "read": [("GET", "/objects", None), ("GET", "/objects/cnn", None), ("GET", "/objects/cnn/versions/1", None), ("GET", "/search", None), ("GET", "/history", None),
                     ("GET", "/objects/cnn/versions/1/file", None), ("GET", "/objects/cnn/aliases/live/rules", None)],
            "push": [("POST", "/objects/cnn/versions?file=c.txt&kind=report", b"more")],
            "promote": [("POST", "/objects/cnn/aliases/live", {"version": 1}), ("POST", "/objects/cnn/aliases/live", {"version": 2}), ("POST", "/objects/cnn/aliases/live/rollback", {}),
                        ("POST", "/objects/cnn/aliases/live/rules", {"rules": []})],
        }
        order = ["read", "push", "promote", "admin"]
        with self.serving() as server:
            for needed, requests in asks.items():
                for method, path, body in requests:
                    for token in (None, "x" * 20):
                        self.bad("TN1014", 403, server, method, path, body, token=token)
                    for role in order:
                        if order.index(role) < order.index(needed):
                            self.bad("TN1014", 403, server, method, path, body, token=self.tokens[role])
                    self.good(server, method, path, body, token=self.tokens[needed])
        events = self.get("history", token=self.tokens["admin"])["events"]
        self.assertEqual({"push": "a-push", "promote": "a-promote", "rollback": "a-promote"}, {row["action"]: row["by"] for row in events if row["action"] in ("push", "promote", "rollback")})
        self.assertEqual([], self.get("verify", token=self.tokens["admin"])["problems"])

    def test_roles_of_the_server(self):
        """Without tokens of the registry the server's own decide; with both, either."""
        file = self.folder / "tokens"
        file.write_text("rrrrrrrrrrrrrrrr read\naaaaaaaaaaaaaaaa admin\n")
        file.chmod(0o600)
        with self.serving("--token-file", file) as server:
            for token in (None, "x" * 20):
                self.bad("TN0815", 401, server, "GET", "/objects", token=token)
                self.bad("TN0815", 401, server, "POST", "/objects/cnn/versions?file=c.txt&kind=report", b"more", token=token)
            self.good(server, "GET", "/objects", token="r" * 16)
            self.bad("TN0816", 403, server, "POST", "/objects/cnn/aliases/live", {"version": 1}, token="r" * 16)
            self.bad("TN0816", 403, server, "POST", "/objects/cnn/versions?file=c.txt&kind=report", b"more", token="r" * 16)
            self.good(server, "POST", "/objects/cnn/versions?file=c.txt&kind=report", b"more", token="a" * 16)
            self.assertRegex(self.get("history")["events"][-1]["detail"]["caller"], "^serve, token [0-9a-f]{8}$")
            self.make_tokens()
            self.good(server, "GET", "/objects", token=self.tokens["read"])
            self.bad("TN1014", 403, server, "GET", "/objects", token="x" * 20)
            self.bad("TN0815", 401, server, "GET", "/objects")
            self.bad("TN0815", 401, server, "POST", "/objects/../../v2/models", token=self.tokens["admin"])

    def test_hostile(self):
        with self.serving("--max-push", "1") as server:
            count = len(self.get("history")["events"])
            for code, status, method, path, body in (
                    ("TN0806", 400, "GET", "/objects/..%2F..%2Fetc", None), ("TN1004", 400, "GET", "/objects/cnn:1/versions/1/file", None), ("TN1004", 400, "GET", "/objects/cnn/versions/0", None),
                    ("TN1004", 400, "GET", "/objects/cnn/versions/-1/file", None), ("TN1003", 404, "GET", "/objects/cnn/versions/99999/file", None), ("TN1003", 404, "GET", "/objects/nobody", None),
                    ("TN0806", 400, "GET", "/objects/..", None), ("TN1004", 400, "GET", "/objects/cnn/aliases/a%2Fb", None), ("TN0806", 400, "GET", "/objects/a%00b", None),
                    ("TN0806", 400, "GET", "/objects?most=0", None), ("TN0806", 400, "GET", "/objects?most=1e9", None), ("TN0806", 400, "GET", "/objects?nothing=1", None),
                    ("TN0806", 400, "GET", "/search?where=%zz", None), ("TN0105", 400, "GET", "/search?where=x", None), ("TN1009", 400, "GET", "/search?where=x%3E%3D1", None),
                    ("TN0809", 404, "GET", "/nothing", None), ("TN0809", 404, "POST", "/objects", b""),
                    ("TN0806", 400, "POST", "/objects/cnn/versions", b"x"), ("TN0806", 400, "POST", "/objects/cnn/versions?file=../x", b"x"), ("TN0806", 400, "POST", "/objects/cnn/versions?file=%2Fetc%2Fpasswd", b"x"),
                    ("TN0806", 400, "POST", "/objects/cnn/versions?file=..", b"x"), ("TN0806", 400, "POST", "/objects/..%2Fx/versions?file=x.txt", b"x"), ("TN1004", 400, "POST", "/objects/--registry=x/versions?file=x.txt", b"x"),
                    ("TN1005", 400, "POST", "/objects/cnn/versions?file=x.txt&kind=report&sha256=" + "0" * 64, b"x"), ("TN0105", 400, "POST", "/objects/cnn/versions?file=x.txt&meta=x", b"x"),
                    ("TN0806", 400, "POST", "/objects/cnn/versions?file=x.txt&kind=virus", b"x"), ("TN1010", 400, "POST", "/objects/evil/versions?file=x.pkl", b"\x80\x04cos\nsystem\n."),
                    ("TN0105", 400, "POST", "/objects/cnn/versions?file=x.txt", b""), ("TN0808", 413, "POST", "/objects/cnn/versions?file=x.txt", b"x" * ((1 << 20) + 1)),
                    ("TN0806", 400, "POST", "/objects/cnn/aliases/live", b"[]"), ("TN0806", 400, "POST", "/objects/cnn/aliases/live", b"{"), ("TN0806", 400, "POST", "/objects/cnn/aliases/live", {"version": -1}),
                    ("TN1004", 400, "POST", "/objects/cnn/aliases/7", {"version": 1}), ("TN0806", 400, "POST", "/objects/cnn/aliases/live/rules", {"rules": "x"}),
                    ("TN1009", 400, "POST", "/objects/cnn/aliases/live/rules", {"rules": ["x"]})):
                with self.subTest(f"{method} {path}"):
                    got, value = self.ask(server, method, path, body)
                    self.assertEqual((status, code), (got, value["error"][:6]), value)
                    self.assertNotIn(str(self.scratch), value["error"])
            head = "POST /v2/registry/objects/cnn/versions?file=x.txt&kind=report HTTP/1.1\r\nHost: localhost\r\n"
            for more, answer in (("Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", b" 400 "), ("\r\n", b" 400 "), ("Content-Length: 99999999999999999999\r\n\r\n", b" 400 "),
                                 ("Content-Length: 3\r\nContent-Encoding: gzip\r\n\r\nxxx", b" 400 ")):
                self.assertIn(answer, server.raw((head + more).encode()).split(b"\r\n")[0], more)
            # Cut off in the middle: nothing of it stays.
            for _ in range(8):
                with socket.create_connection(("127.0.0.1", server.port)) as connection:
                    connection.sendall((head + "Content-Length: 1000000\r\n\r\n").encode() + b"x" * 500000)
                    # Folders of pushes before go meanwhile, which os.walk does not mind.
                    server.wait_until(lambda: any("x.txt" in files for _, _, files in os.walk(self.scratch)))
            server.wait_until(lambda: not list(self.scratch.iterdir()))
            self.assertEqual(count, len(self.get("history")["events"]))
            # The next request on a connection is read where the push ended.
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            for number in range(3):
                connection.request("POST", f"/v2/registry/objects/again/versions?file=x.txt&kind=report", f"number {number}".encode())
                self.assertEqual(number + 1, json.load(connection.getresponse())["version"])
            connection.close()
            self.assertEqual(200, server.get("/v2/health/live")[0])
        self.assertSound()


class RegistryServer(Server):
    """Of a registry alone."""

    def __init__(self, registry, *arguments):
        super().__init__(f"--registry={registry}", *arguments)


if __name__ == "__main__":
    unittest.main()
