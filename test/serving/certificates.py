"""Certificates and tokens that change while the server runs."""

import http.client
import json
import os
import ssl
import subprocess
import time
import unittest

from server import Server, ServingTest, request


class Certificates(ServingTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ["first", "second"]:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", cls.folder / f"{name}.key", "-out", cls.folder / f"{name}.crt", "-days", "30",
                            "-subj", f"/CN={name}"], check=True, capture_output=True)

    def put(self, name):
        """Replaces the server's files, each at once."""
        for kind in ["crt", "key"]:
            (self.folder / "new").write_bytes((self.folder / f"{name}.{kind}").read_bytes())
            (self.folder / "new").replace(self.folder / f"server.{kind}")

    def connect(self, server):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=20)
        connection.connect()
        return connection

    def served(self, server):
        connection = self.connect(server)
        try:
            return ssl.DER_cert_to_PEM_cert(connection.sock.getpeercert(binary_form=True))
        finally:
            connection.close()

    def pem(self, name):
        return (self.folder / f"{name}.crt").read_text()

    def infer(self, connection):
        connection.request("POST", "/v2/models/cnn/infer", json.dumps(request()))
        reply = connection.getresponse()
        return reply.status, reply.read()

    def test_changes(self):
        self.put("first")
        with Server(self.folder / "models", "--tls-cert", self.folder / "server.crt", "--tls-key", self.folder / "server.key", waits=False) as server:
            self.assertEqual(self.pem("first"), self.served(server))
            held = self.connect(server)
            server.wait_until(lambda: self.infer(held)[0] == 200)
            answer = self.infer(held)
            self.put("second")
            server.wait_until(lambda: self.served(server) == self.pem("second"))
            # What was connected goes on, and what connects gets the same answers.
            self.assertEqual(answer, self.infer(held))
            other = self.connect(server)
            self.assertEqual(answer, self.infer(other))
            # Those that cannot be used change nothing but the log: no certificate, the key of another, none at all.
            for number, spoil in enumerate([lambda: (self.folder / "server.crt").write_text("no certificate\n"),
                                            lambda: (self.put("second"), (self.folder / "server.key").write_bytes((self.folder / "first.key").read_bytes())),
                                            lambda: os.unlink(self.folder / "server.crt")], 1):
                spoil()
                server.wait_until(lambda: sum("TN0831" in line for line in server.log) == number)
                self.assertEqual(self.pem("second"), self.served(server))
            self.put("first")
            server.wait_until(lambda: self.served(server) == self.pem("first"))
            self.assertEqual(answer, self.infer(held))
            held.close()
            other.close()
            time.sleep(1.5)
            self.assertEqual(2, len(server.logged("was reloaded", 2)), server.log)

    def test_tokens(self):
        """Tokens that change are read again; what cannot be used changes nothing."""
        file = self.folder / "tokens"

        def put(token, mode=0o600):
            (self.folder / "new").write_text(f"{token} admin\n")
            (self.folder / "new").chmod(mode)
            (self.folder / "new").replace(file)

        put("a" * 16)
        with Server(self.folder / "models", "--token-file", file) as server:
            knows = lambda token: server.get("/v2", headers={"Authorization": f"Bearer {token}"})[0] == 200
            self.assertTrue(knows("a" * 16))
            put("b" * 16)
            server.wait_until(lambda: knows("b" * 16))
            self.assertFalse(knows("a" * 16))
            put("c" * 16, 0o644)
            server.wait_until(lambda: any("error TN0803" in line for line in server.log))
            self.assertEqual((True, False), (knows("b" * 16), knows("c" * 16)))


if __name__ == "__main__":
    unittest.main()
