"""Requests that a browser sends for pages of other sites: refused with TN0822, over HTTP/1.1, HTTP/2 and gRPC; programs are untouched."""

import shutil
import subprocess
import unittest

from server import Server, ServingTest

UNLOAD = "/v2/repository/models/nothing/unload"  # TN0810 where it is asked
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Accept-Language": "en"}
TOKEN = "t" * 16


class Sites(ServingTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.folder / "models").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def ask(self, server, headers, method="POST"):
        """Status and first code of the answer; {port} in a header is the server's."""
        filled = {name: value.replace("{port}", str(server.port)) for name, value in headers.items()}
        status, _, body = server.call(method, UNLOAD if method == "POST" else "/v2/tenon/status", None, filled)
        return status, body[10:16].decode() if status != 200 else ""

    def test_posts(self):
        server = self.server
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "http://127.0.0.1"},
                        {"Origin": "http://evil.example?127.0.0.1:{port}"}, {"Origin": "http://x.127.0.0.1:{port}"}, {"Sec-Fetch-Site": "cross-site"},
                        {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-site"}):
            with self.subTest(headers):
                self.assertEqual((403, "TN0822"), self.ask(server, headers))
                self.assertEqual(200, self.ask(server, headers, "GET")[0], "it changes nothing, and the page cannot read it")
        for headers in ({}, {"Origin": "http://127.0.0.1:{port}"}, {"Origin": "https://127.0.0.1:{port}"}, {"Origin": "http://localhost:{port}", "Host": "localhost:{port}"},
                        {"Origin": "http://[::1]:{port}", "Host": "[::1]:{port}"}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, BROWSER):
            with self.subTest(headers):
                self.assertEqual((404, "TN0810"), self.ask(server, headers))

    def test_names_that_lead_here(self):
        """A page's own name may lead to this machine (DNS rebinding); tokens, which such a page has none of, keep it out as well."""
        evil = {"Host": "evil.example:{port}"}
        marks = ({"Origin": "http://evil.example:{port}"}, {"Sec-Fetch-Site": "same-origin"}, {"User-Agent": BROWSER["User-Agent"]}, {"Accept-Language": "en"})
        server = self.server
        for mark in marks:
            for method in ("GET", "POST"):
                for host in ("evil.example:{port}", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "xlocalhost"):
                    with self.subTest(mark=mark, method=method, host=host):
                        self.assertEqual((403, "TN0822"), self.ask(server, {**mark, "Host": host}, method))
        self.assertEqual((404, "TN0810"), self.ask(server, evil), "a program may use any name")
        for host in ("localhost", "a.localhost:{port}", "127.0.0.1", "[::1]:{port}"):
            self.assertEqual((404, "TN0810"), self.ask(server, {**BROWSER, "Host": host}))
        tokens = self.folder / "tokens"
        tokens.write_text(f"{TOKEN} admin\n")
        tokens.chmod(0o600)
        for options in (("--token-file", tokens), ("--insecure",)):
            with Server(self.folder / "models", *options) as server:
                self.assertEqual((404, "TN0810"), self.ask(server, {**evil, **BROWSER, "Authorization": f"Bearer {TOKEN}"}))

    @unittest.skipUnless(shutil.which("curl"), "there is no curl")
    def test_http2(self):
        def curl(path, *arguments):
            done = subprocess.run(["curl", "-si", "--http2-prior-knowledge", "-X", "POST", f"http://127.0.0.1:{server.port}{path}", *arguments], capture_output=True, text=True, errors="replace", timeout=60)
            return done.stdout

        def call(*arguments):
            return curl("/inference.GRPCInferenceService/ServerLive", "-H", "content-type: application/grpc", *arguments)

        server = self.server
        for header in ("Origin: http://evil.example", "Sec-Fetch-Site: cross-site"):
            self.assertRegex(curl(UNLOAD, "-H", header), r"(?s)^HTTP/2 403.*TN0822")
            self.assertRegex(call("-H", header), "grpc-status: 7")
        self.assertRegex(curl(UNLOAD, "-H", f"Origin: http://127.0.0.1:{server.port}"), r"(?s)^HTTP/2 404.*TN0810")
        self.assertRegex(call(), "grpc-status: 3")  # the call contains no message


if __name__ == "__main__":
    unittest.main()
