"""Where the keys of S3 come from: each source alone, their order, keys that expire, and what is said where there are none.

A server of the test's own stands for the token service, the container's service and the instance's metadata.
"""

import http.server
import json
import pathlib
import sys
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import places  # noqa: E402
import shared  # noqa: E402

ROLE = "arn:aws:iam::1:role/reader"


class Sources(http.server.ThreadingHTTPServer):
    """`left` is for how long its keys hold, in seconds; `asked` what came, by the name of the source."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.left, self.asked, self.refuses = 3600, [], False
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, text, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def expires(self):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.server.left))

    def keys(self):
        self.reply(json.dumps({"Code": "Success", "AccessKeyId": shared.KEY, "SecretAccessKey": shared.SECRET, "Token": "token", "Expiration": self.expires()}))

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        action = form["Action"][0]
        self.server.asked.append((action, form.get("WebIdentityToken", [self.headers.get("Authorization", "")[:40]])[0]))
        if self.server.refuses or form["RoleArn"] != [ROLE]:
            self.reply("<ErrorResponse><Error><Code>AccessDenied</Code><Message>no such role</Message></Error></ErrorResponse>", 403)
            return
        self.reply(f"<{action}Response><Credentials><AccessKeyId>{shared.KEY}</AccessKeyId><SecretAccessKey>{shared.SECRET}</SecretAccessKey><SessionToken>token</SessionToken>"
                   f"<Expiration>{self.expires()}</Expiration></Credentials></{action}Response>")

    def do_PUT(self):
        isAsked = self.path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
        self.reply("session" if isAsked and not self.server.refuses else "", 200 if isAsked and not self.server.refuses else 403)

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Authorization") or self.headers.get("X-aws-ec2-metadata-token")))
        roles = "/latest/meta-data/iam/security-credentials/"
        if self.path == roles:
            self.reply("reader")
        elif self.path in (roles + "reader", "/container"):
            self.keys()
        else:
            self.reply("", 404)


@unittest.skipIf(shared.missing(), shared.missing())
class Credentials(places.InServers, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.sources = Sources()
        self.addCleanup(self.sources.server_close)
        self.addCleanup(self.sources.shutdown)
        self.home = self.folder / f"home-{self.name}"
        (self.home / ".aws").mkdir(parents=True)
        (self.home / "identity").write_text("who I am\n")
        kept = {name: value for name, value in self.environment.items() if name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        self.plain = kept | {"HOME": str(self.home), "AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL_STS": self.sources.url}
        self.environment = self.plain

    def profile(self, text, file="credentials"):
        (self.home / ".aws" / file).write_text(text)

    def assertWorks(self, *asked, **environment):
        self.environment = self.plain | environment
        self.sources.asked.clear()
        self.assertEqual("report", self.push("data")["kind"])
        self.assertEqual(list(asked), [each[0] for each in self.sources.asked])

    def assertFails(self, code, *said, **environment):
        self.environment = self.plain | environment
        message = self.refused(code, "push", "data", "a.txt", "--kind", "report")
        for each in said:
            self.assertIn(each, message)

    KEYS = f"aws_access_key_id = {shared.KEY}\naws_secret_access_key = {shared.SECRET}\n"
    IDENTITY = {"AWS_ROLE_ARN": ROLE}

    def test_profiles(self):
        self.profile(f"# of mine\n[default]\n{self.KEYS}\n[other]\naws_access_key_id=x\n")
        self.assertWorks()
        self.assertFails("TN0105", "the profile 'other' has none", AWS_PROFILE="other")
        self.assertFails("TN1013", "the profile 'nobody'", AWS_PROFILE="nobody")
        self.profile("")
        self.profile(f"[profile team]\nregion = eu-north-1\ns3 =\n  max = 3\n{self.KEYS}[profile role]\nrole_arn = {ROLE}\nsource_profile = team\n"
                     f"[profile identity]\nrole_arn = {ROLE}\nweb_identity_token_file = {self.home}/identity\n[profile sso]\nsso_session = x\n"
                     f"[profile none]\nrole_arn = {ROLE}\nsource_profile = none\n[profile kept]\nrole_arn = {ROLE}\ncredential_source = Environment\n", "config")
        self.assertWorks(AWS_PROFILE="team")
        self.assertWorks("AssumeRole", AWS_PROFILE="role")
        self.assertIn(f"Credential={shared.KEY}", self.sources.asked[0][1])
        self.assertWorks("AssumeRoleWithWebIdentity", AWS_PROFILE="identity")
        self.assertFails("TN1013", "sso_session", "aws configure export-credentials", AWS_PROFILE="sso")
        self.assertFails("TN1013", "the profile 'none'", AWS_PROFILE="none")
        self.assertWorks(AWS_SHARED_CREDENTIALS_FILE=str(self.home / ".aws/config"), AWS_PROFILE="profile team")

    def test_web_identity(self):
        identity = self.IDENTITY | {"AWS_WEB_IDENTITY_TOKEN_FILE": str(self.home / "identity")}
        self.profile(f"[default]\n{self.KEYS}")
        self.assertWorks("AssumeRoleWithWebIdentity", **identity)
        self.assertEqual("who I am", self.sources.asked[0][1])
        self.assertWorks(AWS_ACCESS_KEY_ID=shared.KEY, AWS_SECRET_ACCESS_KEY=shared.SECRET, **identity)
        self.sources.refuses = True
        self.assertFails("TN1013", "403 AccessDenied: no such role", **identity)
        (self.home / "identity").unlink()
        self.assertFails("TN1013", "cannot be read", **identity)

    def test_container(self):
        self.assertWorks("/container", AWS_CONTAINER_CREDENTIALS_FULL_URI=self.sources.url + "/container", AWS_CONTAINER_AUTHORIZATION_TOKEN="let me")
        self.assertEqual("let me", self.sources.asked[0][1])
        self.assertFails("TN1013", "answers 404", AWS_CONTAINER_CREDENTIALS_FULL_URI=self.sources.url + "/else")
        self.assertFails("TN1013", "neither HTTPS", AWS_CONTAINER_CREDENTIALS_FULL_URI="http://example.com/container")
        self.assertFails("TN1013", "neither HTTPS", AWS_CONTAINER_CREDENTIALS_FULL_URI="http://127.0.0.1.example.com/container")
        self.assertFails("TN1013", "neither HTTPS", AWS_CONTAINER_CREDENTIALS_FULL_URI="http://127.0.0.1:80@example.com/container")

    def test_instance(self):
        instance = {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.sources.url + "/"}
        roles = "/latest/meta-data/iam/security-credentials/"
        self.assertWorks(roles, roles + "reader", **instance)
        self.assertEqual({"session"}, {token for _, token in self.sources.asked})
        self.sources.refuses = True
        self.assertFails("TN0105", "instance's metadata", **instance)

    def test_none(self):
        self.assertFails("TN0105", "AWS_ACCESS_KEY_ID is not set", "AWS_WEB_IDENTITY_TOKEN_FILE is not set", "the profile 'default'", "AWS_CONTAINER_CREDENTIALS_FULL_URI is not set",
                         "AWS_EC2_METADATA_DISABLED is true")
        self.assertFails("TN0105", "AWS_SECRET_ACCESS_KEY is not set", AWS_ACCESS_KEY_ID="x")

    def test_renewal(self):
        """Keys that end within five minutes are taken anew before the next request; where that fails they are used for as long as they hold."""
        container = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": self.sources.url + "/container"}
        self.sources.left = 200
        self.assertWorks("/container", "/container", **container)
        self.sources.left = 3600
        self.assertWorks("/container", **container)


if __name__ == "__main__":
    unittest.main()
