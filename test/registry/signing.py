"""Signatures as OpenSSF Model Signing has them: those that PyPI's model-signing made (test/data/signing), those that `tenon sign`
makes, what must not be taken for one, versions with signatures, and servers that ask for them."""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from keys import FIXTURES, MODEL, TENON, authority, openssl, pair

TYPE = "application/vnd.in-toto+json"


def bundle_of(key, payload, payload_type=TYPE, encoded=None, material=None):
    """A bundle by hand: whatever is in it is signed by the key."""
    encoded = encoded or b"DSSEv1 %d %s %d %s" % (len(payload_type), payload_type.encode(), len(payload), payload)
    signature = openssl("dgst", "-sha256", "-sign", key, input=encoded)
    return {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": {**(material or {"publicKey": {}}), "tlogEntries": []},
            "dsseEnvelope": {"payload": base64.b64encode(payload).decode(), "payloadType": payload_type,
                             "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}]}}


def statement_of(path):
    return json.loads(base64.b64decode(json.loads(path.read_text())["dsseEnvelope"]["payload"]))


class SigningTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.keys = pathlib.Path(holder.name) / "keys"
        cls.keys.mkdir()
        pair(cls.keys / "mine")
        pair(cls.keys / "other")
        cls.environment = dict(os.environ, XDG_DATA_HOME=holder.name)

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def call(self, *arguments):
        return subprocess.run([TENON, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, env=self.environment, timeout=120)

    def get(self, *arguments):
        done = self.call(*arguments, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def refused(self, code, *arguments):
        done = self.call(*arguments)
        self.assertIn(f"error {code}: ", done.stderr, arguments)
        self.assertNotEqual(0, done.returncode)
        return done.stderr

    def model(self):
        """A folder of two files; and a file."""
        (self.folder / "model/part").mkdir(parents=True)
        (self.folder / "model/weights.bin").write_bytes(bytes(range(256)) * 10)
        (self.folder / "model/part/config.json").write_text("{}")
        return "model"

    def sign(self, path, *more):
        return self.get("sign", path, "--key", self.keys / "mine.pem", *more)

    def verify(self, path, *more):
        return self.get("verify", path, "--trusted", self.keys / "mine.pub.pem", *more)

    def wrong(self, path, *more):
        return self.refused("TN1016", "verify", path, "--trusted", self.keys / "mine.pub.pem", *more)


class Fixtures(SigningTest):
    """Bundles of model-signing 1.1.1."""

    def setUp(self):
        super().setUp()
        shutil.copytree(MODEL, self.folder / "model")
        shutil.copy(FIXTURES / "one.bin", self.folder)

    def check(self, model, signature, trusted):
        return "verify", model, "--signature", FIXTURES / f"{signature}.sig", "--trusted", FIXTURES / f"{trusted}.pem"

    def test_verified(self):
        for signature, trusted in (("folder-256", "public-256"), ("folder-384", "public-384"), ("folder-521", "public-521"), ("certificate", "authority"), ("parts", "public-256"),
                                   ("blake2b", "public-256")):
            with self.subTest(signature=signature):
                self.get(*self.check("model", signature, trusted))
        self.assertIn("certificate CN=Test certificate", self.get(*self.check("one.bin", "file-certificate", "authority"))["signer"])
        self.assertEqual(1, self.get(*self.check("one.bin", "file-256", "public-256"))["files"])

    def test_refused(self):
        for model, signature, trusted, code in (("model", "folder-256", "public-384", "TN1015"), ("model", "certificate", "public-256", "TN1015"), ("model", "folder-256", "authority", "TN1015"),
                                                ("model", "file-256", "public-256", "TN1016"), ("one.bin", "folder-256", "public-256", "TN1016"), ("model", "blake3", "public-256", "TN1016"),
                                                ("model", "server", "authority", "TN1015")):
            with self.subTest(signature=signature, trusted=trusted):
                self.refused(code, *self.check(model, signature, trusted))
        self.assertIn("expired", self.refused("TN1015", *self.check("model", "expired", "authority")))

    def test_changed(self):
        """Each byte of a file, and each signature of another file, is noticed; so is an empty file that gets a byte."""
        (self.folder / "model/config/a").write_bytes(b"x")
        for signature in ("folder-256", "parts", "blake2b"):
            self.refused("TN1016", *self.check("model", signature, "public-256"))

    def test_several_trusted(self):
        """A file may hold keys and authorities, and several files may be named."""
        trusted = self.folder / "trusted.pem"
        trusted.write_bytes(b"".join((FIXTURES / f"{name}.pem").read_bytes() for name in ("public-384", "authority", "public-256")))
        for signature in ("folder-256", "folder-384", "certificate"):
            self.get("verify", "model", "--signature", FIXTURES / f"{signature}.sig", "--trusted", trusted)
        self.get(*self.check("model", "folder-521", "authority"), "--trusted", FIXTURES / "public-521.pem")


class Files(SigningTest):
    def test_curves(self):
        for curve in ("prime256v1", "secp384r1", "secp521r1"):
            pair(self.folder / curve, curve)
            self.get("sign", self.model() if curve == "prime256v1" else "model", "--key", f"{curve}.pem")
            self.get("verify", "model", "--trusted", f"{curve}.pub.pem")
            self.refused("TN1015", "verify", "model", "--trusted", self.keys / "mine.pub.pem")

    def test_statement(self):
        """What OpenSSF Model Signing v1.0 asks of producers."""
        self.model()
        (self.folder / "model/.git").mkdir()
        (self.folder / "model/.git/HEAD").write_text("ref")
        (self.folder / "model/.hidden").write_text("counts")
        self.sign("model")
        statement = statement_of(self.folder / "model/model.sig")
        self.assertEqual(("https://in-toto.io/Statement/v1", "https://model_signing/signature/v1.0"), (statement["_type"], statement["predicateType"]))
        resources = statement["predicate"]["resources"]
        self.assertEqual([".hidden", "part/config.json", "weights.bin"], [row["name"] for row in resources])
        self.assertEqual(hashlib.sha256((self.folder / "model/weights.bin").read_bytes()).hexdigest(), resources[2]["digest"])
        root = hashlib.sha256(b"".join(bytes.fromhex(row["digest"]) for row in resources)).hexdigest()
        self.assertEqual([{"name": "model", "digest": {"sha256": root}}], statement["subject"])
        self.assertEqual({"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": [".git", ".gitattributes", ".github", ".gitignore", "model.sig"]},
                         statement["predicate"]["serialization"])
        (self.folder / "model/.git/HEAD").write_text("other")
        self.verify("model")
        (self.folder / "model").rename(self.folder / "renamed")
        self.verify("renamed")

    def test_one_file(self):
        (self.folder / "a.bin").write_bytes(b"a")
        self.assertEqual("a.bin.sig", self.sign("a.bin")["signature"])
        self.verify("a.bin")
        (self.folder / "a.bin").rename(self.folder / "b.bin")
        self.verify("b.bin", "--signature", "a.bin.sig")
        (self.folder / "b.bin").write_bytes(b"b")
        self.assertIn("changed", self.wrong("b.bin", "--signature", "a.bin.sig"))
        self.refused("TN1015", "verify", "b.bin", "--trusted", self.keys / "mine.pub.pem")

    def test_differences(self):
        self.sign(self.model())
        model = self.folder / "model"
        (model / "more.bin").write_bytes(b"")
        self.assertIn("not signed: 'more.bin'", self.wrong("model"))
        self.verify("model", "--ignore-unsigned")
        self.verify("model", "--ignore", "more.bin")
        (model / "more.bin").unlink()
        (model / "part/config.json").rename(model / "part/config")
        self.assertIn("not signed: 'part/config'; missing: 'part/config.json'", self.wrong("model"))
        self.assertIn("missing", self.wrong("model", "--ignore-unsigned"))
        (model / "part/config").rename(model / "part/config.json")
        self.verify("model")
        for place in (0, 2559):
            data = bytearray((model / "weights.bin").read_bytes())
            data[place] ^= 1
            (model / "weights.bin").write_bytes(data)
            self.assertIn("changed: 'weights.bin'", self.wrong("model", "--ignore-unsigned"))
            data[place] ^= 1
            (model / "weights.bin").write_bytes(data)
        self.verify("model")

    def test_links(self):
        self.model()
        self.sign("model", "--ignore", "part/")
        for name, target in (("model/link", "weights.bin"), ("model/folder", ".."), ("model/nowhere", "/nothing/there")):
            (self.folder / name).symlink_to(target)
            self.assertIn("symbolic link", self.wrong("model"))
            self.assertIn("symbolic link", self.refused("TN1017", "sign", "model", "--key", self.keys / "mine.pem", "-o", "again.sig"))
            (self.folder / name).unlink()
        os.mkfifo(self.folder / "model/pipe")
        self.wrong("model")
        (self.folder / "model/pipe").unlink()
        (self.folder / "model/weights.bin").rename(self.folder / "weights.bin")
        (self.folder / "model/weights.bin").symlink_to("../weights.bin")
        self.wrong("model")

    def test_what_cannot_be_signed(self):
        (self.folder / "empty/.git").mkdir(parents=True)
        (self.folder / "empty/.git/HEAD").write_text("ref")
        self.assertIn("no files", self.refused("TN1017", "sign", "empty", "--key", self.keys / "mine.pem"))
        self.refused("TN0101", "sign", "nothing", "--key", self.keys / "mine.pem")
        self.model()
        for path in ("../x", "/etc", "a/../b", "*.bin", ""):
            self.refused("TN1017", "sign", "model", "--key", self.keys / "mine.pem", "--ignore", path)
        (self.folder / "model" / os.fsdecode(b"caf\xe9")).write_text("Latin-1")
        self.assertIn("not UTF-8", self.refused("TN1017", "sign", "model", "--key", self.keys / "mine.pem"))
        self.assertFalse((self.folder / "model/model.sig").exists())


class Keys(SigningTest):
    def setUp(self):
        super().setUp()
        self.model()

    def test_bad_keys(self):
        pair(self.folder / "koblitz", "secp256k1")
        openssl("genrsa", "-out", self.folder / "rsa.pem", "2048")
        openssl("rsa", "-in", self.folder / "rsa.pem", "-pubout", "-out", self.folder / "rsa.pub.pem")
        openssl("ec", "-in", self.keys / "mine.pem", "-aes256", "-passout", "pass:1234", "-out", self.folder / "locked.pem")
        (self.folder / "text.pem").write_text("no key")
        (self.folder / "empty.pem").write_text("")
        (self.folder / "damaged.pem").write_text((self.keys / "mine.pub.pem").read_text().replace("MFkw", "MFkx"))
        for key in ("koblitz.pem", "rsa.pem", "locked.pem", "text.pem", "empty.pem", self.keys / "mine.pub.pem"):
            self.refused("TN1017", "sign", "model", "--key", key)
        self.refused("TN0101", "sign", "model", "--key", "nothing.pem")
        self.sign("model")
        for key in ("koblitz.pub.pem", "rsa.pub.pem", "text.pem", "empty.pem", "damaged.pem", self.keys / "mine.pem"):
            self.refused("TN1017", "verify", "model", "--trusted", key)
        self.assertIn("private key", self.refused("TN1017", "verify", "model", "--trusted", self.keys / "mine.pem"))

    def test_certificates(self):
        authority(self.folder)
        signed = self.get("sign", "model", "--key", "team.key.pem", "--certificate-chain", "team.pem", "--certificate-chain", "authority.pem")
        self.assertEqual("certificate CN=Team", signed["signer"])
        self.get("verify", "model", "--trusted", "authority.pem")
        self.refused("TN1015", "verify", "model", "--trusted", FIXTURES / "authority.pem")
        self.refused("TN1015", "verify", "model", "--trusted", "team.key.pub.pem")  # it names an authority, which is to be asked
        self.refused("TN1017", "sign", "model", "--key", self.keys / "mine.pem", "--certificate-chain", "team.pem")
        self.refused("TN1017", "sign", "model", "--key", "team.key.pem", "--certificate-chain", "team.key.pub.pem")
        self.get("sign", "model", "--key", "team.key.pem", "--certificate-chain", "alone.pem")
        self.assertIn("CN=Team", self.refused("TN1015", "verify", "model", "--trusted", "authority.pem"))
        self.get("verify", "model", "--trusted", "alone.pem")
        # Whom the authority lets sign code, it does not let sign certificates.
        self.get("sign", "model", "--key", "stranger.key.pem", "--certificate-chain", "stranger.pem", "--certificate-chain", "team.pem")
        self.assertIn("CN=Stranger, which is not trusted", self.refused("TN1015", "verify", "model", "--trusted", "authority.pem"))
        # An authority's own certificate is for signing certificates.
        self.get("sign", "model", "--key", "authority.key.pem", "--certificate-chain", "authority.pem")
        self.assertIn("not meant for code signing", self.refused("TN1015", "verify", "model", "--trusted", "authority.pem"))


class Bundles(SigningTest):
    """Bundles that are wrong in themselves: all but the last of each are signed by the key that is trusted."""

    def setUp(self):
        super().setUp()
        self.sign(self.model(), "-o", "good.sig")
        self.good = json.loads((self.folder / "good.sig").read_text())
        self.statement = statement_of(self.folder / "good.sig")

    def refuse(self, bundle, text=None, code="TN1016"):
        (self.folder / "bad.sig").write_text(text if text is not None else json.dumps(bundle))
        return self.refused(code, "verify", "model", "--signature", "bad.sig", "--trusted", self.keys / "mine.pub.pem")

    def signed(self, statement):
        return bundle_of(self.keys / "mine.pem", json.dumps(statement).encode())

    def changed(self, change):
        copy = json.loads(json.dumps(self.good))
        change(copy)
        return copy

    def test_by_hand(self):
        """What the others differ from is taken."""
        (self.folder / "hand.sig").write_text(json.dumps(self.signed(self.statement)))
        self.verify("model", "--signature", "hand.sig")
        key = base64.b64encode((self.keys / "mine.pub.pem").read_bytes()).decode()
        old = bundle_of(self.keys / "mine.pem", json.dumps(self.statement).encode(), material={"publicKey": {"rawBytes": key, "keyDetails": "PKIX_ECDSA_P256_SHA_256"}})
        (self.folder / "old.sig").write_text(json.dumps(old))
        self.verify("model", "--signature", "old.sig")

    def test_version_0_2(self):
        """The first form of model-signing, which wrote the bytes as Python does."""
        subjects = [{"name": row["name"], "digest": {"sha256": row["digest"]}} for row in self.statement["predicate"]["resources"]]
        payload = json.dumps({"_type": self.statement["_type"], "subject": subjects, "predicateType": "https://model_signing/Digests/v0.1", "predicate": {"unused": "it's"}}, indent=2).encode()
        old = bundle_of(self.keys / "mine.pem", payload, encoded=f"DSSEV1 {len(TYPE)} {TYPE} {len(payload)} {payload}".encode())
        (self.folder / "old.sig").write_text(json.dumps(old))
        self.verify("model", "--signature", "old.sig", "--ignore", "good.sig")
        # Its way to write bytes is for its statements alone.
        payload = json.dumps(self.statement).encode()
        self.refuse(bundle_of(self.keys / "mine.pem", payload, encoded=f"DSSEV1 {len(TYPE)} {TYPE} {len(payload)} {payload}".encode()), code="TN1015")

    def test_statements(self):
        rows = self.statement["predicate"]["resources"]
        statements = [{**self.statement, "_type": "https://in-toto.io/Statement/v2"}, {**self.statement, "predicateType": "https://slsa.dev/provenance/v1"}, {**self.statement, "subject": []},
                      {**self.statement, "subject": self.statement["subject"] * 2}, {**self.statement, "predicate": None}, {**self.statement, "predicate": {"resources": rows}}]
        for names in (["../../etc/passwd"], ["/etc/passwd"], ["a/./b"], ["a//b"], [""], ["a/"], [".."], ["a\0b"], ["a", "a"], []):
            resources = [{**rows[0], "name": name} for name in names]
            root = hashlib.sha256(b"".join(bytes.fromhex(row["digest"]) for row in resources)).hexdigest()
            statements.append({**self.statement, "subject": [{"name": "model", "digest": {"sha256": root}}], "predicate": {**self.statement["predicate"], "resources": resources}})
        for row in ({"digest": "0" * 64}, {"digest": "g" * 64}, {"digest": rows[0]["digest"].upper()}, {"digest": ""}, {"algorithm": "md5"}, {"name": 7}):
            statements.append({**self.statement, "predicate": {**self.statement["predicate"], "resources": [{**rows[0], **row}, *rows[1:]]}})
        for form in ({"method": "magic"}, {"hash_type": "blake3"}, {"allow_symlinks": None}, {"method": "shards"}, {"method": "shards", "shard_size": 0}, {"shard_size": 5}, {"ignore_paths": "all"},
                     {"ignore_paths": [1]}):
            statements.append({**self.statement, "predicate": {**self.statement["predicate"], "serialization": {**self.statement["predicate"]["serialization"], **form}}})
        for statement in statements:
            with self.subTest(statement=json.dumps(statement)[-300:]):
                self.refuse(self.signed(statement))
        self.refuse(bundle_of(self.keys / "mine.pem", b"[]"))
        self.refuse(bundle_of(self.keys / "mine.pem", b'{"_type": "a", "_type": "b"}'))
        self.refuse(bundle_of(self.keys / "mine.pem", json.dumps(self.statement).encode(), payload_type="application/json"))

    def test_bundles(self):
        envelope, material = self.good["dsseEnvelope"], self.good["verificationMaterial"]
        self.refuse(self.changed(lambda it: it.update(mediaType="application/json")))
        self.refuse(self.changed(lambda it: it.pop("dsseEnvelope")))
        self.refuse(self.changed(lambda it: it.pop("verificationMaterial")))
        self.refuse(self.changed(lambda it: it.update(messageSignature={"signature": "AAAA"})))
        self.refuse(self.changed(lambda it: it.update(verificationMaterial={**material, "x509CertificateChain": {"certificates": [{"rawBytes": "AAAA"}]}})))
        self.refuse(self.changed(lambda it: it.update(verificationMaterial={"x509CertificateChain": {"certificates": [{"rawBytes": "AAAA"}]}})))
        self.refuse(self.changed(lambda it: it.update(verificationMaterial={"x509CertificateChain": {"certificates": []}})))
        self.refuse(self.changed(lambda it: it.update(verificationMaterial={"certificate": {"rawBytes": "AAAA"}})), code="TN1015")
        for signatures in ([], envelope["signatures"] * 2, [{}], {}, [{"sig": ""}], [{"sig": "not base64"}], [{"sig": "AAAA"}], None):
            self.refuse(self.changed(lambda it: it["dsseEnvelope"].update(signatures=signatures)))
        for payload in ("", "AAAA", envelope["payload"][:-4], envelope["payload"] + "\n", 7):
            self.refuse(self.changed(lambda it: it["dsseEnvelope"].update(payload=payload)))
        self.refuse(self.changed(lambda it: it["verificationMaterial"]["publicKey"].update(hint="0" * 64)), code="TN1015")
        # Another key's signature under the name of the one that is trusted.
        other = bundle_of(self.keys / "other.pem", json.dumps(self.statement).encode(), material={"publicKey": material["publicKey"]})
        self.refuse(other)

    def test_texts(self):
        whole = json.dumps(self.good)
        doubled = whole.replace('"payloadType"', '"payload": "AAAA", "payloadType"')
        for text in ("", "{", "[]", "null", "7", whole[:-1], whole + "x", whole + whole, doubled, "\ufeff" + whole, '{"a":' * 10000 + "1" + "}" * 10000, "[" * 100000):
            self.refuse(None, text)
        with open(self.folder / "huge.sig", "wb") as file:
            file.truncate(33 << 20)
        self.wrong("model", "--signature", "huge.sig")
        for length in range(0, len(whole), 97):  # cut anywhere
            with self.subTest(length=length):
                self.refuse(None, whole[:length])

    def test_each_byte(self):
        """No byte of the payload or the signature can be another one."""
        for name, step in (("payload", 61), ("sig", 7)):
            place = self.good["dsseEnvelope"] if name == "payload" else self.good["dsseEnvelope"]["signatures"][0]
            data = base64.b64decode(place[name])
            for at in range(0, len(data), step):
                changed = bytearray(data)
                changed[at] ^= 1
                text = json.dumps(self.good).replace(place[name], base64.b64encode(changed).decode())
                with self.subTest(name=name, at=at):
                    self.refuse(None, text)


if __name__ == "__main__":
    unittest.main()
