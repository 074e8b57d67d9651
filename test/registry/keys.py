"""Keys and certificates for tests of signatures, by openssl. Relies on the standard library only, so that every environment can use it."""

import os
import pathlib
import subprocess

TENON = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "bin/tenon"
FIXTURES = pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "test/data/signing"
MODEL = FIXTURES.with_name("signed-model")


def openssl(*arguments, **more):
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, **more).stdout


def pair(path, curve="prime256v1"):
    """PATH.pem and PATH.pub.pem."""
    openssl("ecparam", "-name", curve, "-genkey", "-noout", "-out", f"{path}.pem")
    openssl("ec", "-in", f"{path}.pem", "-pubout", "-out", f"{path}.pub.pem")


def authority(folder):
    """authority.pem, and the chain team.pem of a certificate for the key team.key.pem; alone.pem is signed by nobody but itself,
    and stranger.pem by the team, which is no authority."""
    (folder / "extensions").write_text("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=codeSigning\n")
    for name in ("authority.key", "team.key"):
        pair(folder / name)
    openssl("req", "-x509", "-new", "-key", folder / "authority.key.pem", "-out", folder / "authority.pem", "-days", "30", "-subj", "/CN=Authority")
    openssl("req", "-new", "-key", folder / "team.key.pem", "-out", folder / "team.csr", "-subj", "/CN=Team")
    openssl("x509", "-req", "-in", folder / "team.csr", "-CA", folder / "authority.pem", "-CAkey", folder / "authority.key.pem", "-CAcreateserial", "-days", "30",
            "-extfile", folder / "extensions", "-out", folder / "team.pem")
    pair(folder / "stranger.key")
    openssl("req", "-new", "-key", folder / "stranger.key.pem", "-out", folder / "stranger.csr", "-subj", "/CN=Stranger")
    openssl("x509", "-req", "-in", folder / "stranger.csr", "-CA", folder / "team.pem", "-CAkey", folder / "team.key.pem", "-CAcreateserial", "-days", "30",
            "-extfile", folder / "extensions", "-out", folder / "stranger.pem")
    openssl("x509", "-req", "-in", folder / "team.csr", "-signkey", folder / "team.key.pem", "-days", "30", "-extfile", folder / "extensions", "-out", folder / "alone.pem")
