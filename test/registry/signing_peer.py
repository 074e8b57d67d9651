"""Tenon and PyPI's model-signing, each verifying what the other has signed: keys and certificates, files and folders, and what was
changed since. Runs in .venv-signing."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

from model_signing import hashing, signing, verifying

from keys import FIXTURES, MODEL, TENON, authority, pair

CURVES = ("prime256v1", "secp384r1", "secp521r1")
MODELS = ("model", "one.bin")


class Peer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        shutil.copytree(MODEL, cls.folder / "model")
        shutil.copy(FIXTURES / "one.bin", cls.folder)
        for curve in CURVES:
            pair(cls.folder / curve, curve)
        authority(cls.folder)

    def tenon(self, verb, model, signature, *arguments):
        option = "-o" if verb == "sign" else "--signature"
        done = subprocess.run([TENON, verb, model, option, signature, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60)
        return done.returncode == 0 or done.stderr

    def peer(self, verifier, model, signature):
        try:
            verifier.verify(self.folder / model, self.folder / signature)
        except Exception as fault:  # whatever it says no by
            return repr(fault)
        return True

    def by_key(self, curve):
        return verifying.Config().use_elliptic_key_verifier(public_key=self.folder / f"{curve}.pub.pem")

    def by_authority(self):
        return verifying.Config().use_certificate_verifier(certificate_chain=[self.folder / "authority.pem"])

    def changed(self, model):
        """The model with another byte, for as long as it is looked at."""
        path = self.folder / (model if model.endswith(".bin") else "model/config.json")
        data = path.read_bytes()
        self.addCleanup(path.write_bytes, data)
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        return lambda: path.write_bytes(data)

    def test_ours_by_the_peer(self):
        for model in MODELS:
            signings = [([f"--key={curve}.pem"], self.by_key(curve)) for curve in CURVES]
            signings.append((["--key=team.key.pem", "--certificate-chain=team.pem"], self.by_authority()))
            for arguments, verifier in signings:
                with self.subTest(model=model, arguments=arguments):
                    self.assertIs(True, self.tenon("sign", model, "ours.sig", *arguments))
                    self.assertIs(True, self.peer(verifier, model, "ours.sig"))
                    restore = self.changed(model)
                    self.assertIsNot(True, self.peer(verifier, model, "ours.sig"))
                    restore()
            self.assertIsNot(True, self.peer(self.by_key(CURVES[0]), model, "ours.sig"), "of another key")

    def test_the_peers_by_us(self):
        ways = {"files": hashing.Config, "blake2b": lambda: hashing.Config().use_file_serialization(hashing_algorithm="blake2"), "parts": lambda: hashing.Config().use_shard_serialization(shard_size=50),
                "parts by blake2b": lambda: hashing.Config().use_shard_serialization(hashing_algorithm="blake2", shard_size=100)}
        for model in MODELS:
            for name, way in ways.items():
                signers = [(signing.Config().use_elliptic_key_signer(private_key=self.folder / f"{curve}.pem"), f"--trusted={curve}.pub.pem") for curve in CURVES]
                signers.append((signing.Config().use_certificate_signer(private_key=self.folder / "team.key.pem", signing_certificate=self.folder / "team.pem", certificate_chain=[self.folder / "authority.pem"]), "--trusted=authority.pem"))
                for signer, trusted in signers:
                    with self.subTest(model=model, way=name, trusted=trusted):
                        signer.set_hashing_config(way()).sign(self.folder / model, self.folder / "theirs.sig")
                        self.assertIs(True, self.tenon("verify", model, "theirs.sig", trusted))
                        restore = self.changed(model)
                        self.assertIn("TN1016", self.tenon("verify", model, "theirs.sig", trusted))
                        restore()

    def test_links(self):
        """Links that model-signing was told to follow are followed to files."""
        shutil.copytree(self.folder / "model", self.folder / "linked")
        (self.folder / "linked/link").symlink_to("config.json")
        way = hashing.Config().set_allow_symlinks(True)
        signing.Config().use_elliptic_key_signer(private_key=self.folder / f"{CURVES[0]}.pem").set_hashing_config(way).sign(self.folder / "linked", self.folder / "theirs.sig")
        self.assertIs(True, self.tenon("verify", "linked", "theirs.sig", f"--trusted={CURVES[0]}.pub.pem"))
        (self.folder / "linked/link").unlink()
        (self.folder / "linked/link").symlink_to("config.d")
        self.assertIn("TN1016", self.tenon("verify", "linked", "theirs.sig", f"--trusted={CURVES[0]}.pub.pem"))


if __name__ == "__main__":
    unittest.main()
