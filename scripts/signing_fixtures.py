"""Makes test/data/signed-model, and test/data/signing: signatures of it by PyPI's model-signing, for the test that verifies them without it.

    .venv-signing/bin/python scripts/signing_fixtures.py

Private keys are thrown away: each run makes new signatures of new keys. What is called expired.sig or server.sig is one that
model-signing takes and Tenon does not: by a certificate that has ended, and by one that is for TLS servers.
"""

import datetime
import pathlib
import shutil
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from model_signing import hashing, signing, verifying

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "test/data/signing"
MODEL = FOLDER.with_name("signed-model")
CURVES = {"256": ec.SECP256R1(), "384": ec.SECP384R1(), "521": ec.SECP521R1()}
LONG_AGO, LONG_AHEAD = datetime.datetime(2020, 1, 1), datetime.datetime(2120, 1, 1)


def pem_of(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def certificate(name, key, issuer=None, issuer_key=None, until=LONG_AHEAD, purpose=None):
    """Of an authority where no purpose is given."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer.subject if issuer else subject).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(LONG_AGO).not_valid_after(until)
    made = made.add_extension(x509.BasicConstraints(ca=purpose is None, path_length=None), True)
    made = made.add_extension(x509.KeyUsage(purpose is not None, False, False, False, False, purpose is None, purpose is None, False, False), True)
    if purpose:
        made = made.add_extension(x509.ExtendedKeyUsage([purpose]), False)
    return made.sign(issuer_key or key, hashes.SHA256())


def make_model():
    for folder in (FOLDER, MODEL):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    (MODEL / "config.json").write_text('{"layers": 2}\n')
    (MODEL / "config.d").write_text("sorts before a folder of its beginning, and behind it by parts\n")
    (MODEL / "config").mkdir()
    (MODEL / "config/a").write_bytes(b"")
    (MODEL / "more files").mkdir()
    (MODEL / "more files/größe.bin").write_bytes(bytes(range(256)))
    (FOLDER / "one.bin").write_bytes(b"a model of one file\n")


def main():
    make_model()
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        keys = {}
        for bits, curve in CURVES.items():
            keys[bits] = ec.generate_private_key(curve)
            (root / f"{bits}.pem").write_bytes(pem_of(keys[bits]))
            public = keys[bits].public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            (FOLDER / f"public-{bits}.pem").write_bytes(public)
        top_key, middle_key = ec.generate_private_key(CURVES["384"]), ec.generate_private_key(CURVES["256"])
        top = certificate("Test authority", top_key)
        middle = certificate("Test team", middle_key, top, top_key)
        leaves = {"certificate": (LONG_AHEAD, ExtendedKeyUsageOID.CODE_SIGNING), "expired": (datetime.datetime(2021, 1, 1), ExtendedKeyUsageOID.CODE_SIGNING),
                  "server": (LONG_AHEAD, ExtendedKeyUsageOID.SERVER_AUTH)}
        for kind, (until, purpose) in leaves.items():
            leaf = certificate(f"Test {kind}", keys["256"], middle, middle_key, until, purpose)
            (root / f"{kind}.pem").write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
        (root / "middle.pem").write_bytes(middle.public_bytes(serialization.Encoding.PEM))
        (FOLDER / "authority.pem").write_bytes(top.public_bytes(serialization.Encoding.PEM))

        def sign(name, model, configuration, by=None, hashed=None):
            signer = signing.Config()
            if by:
                signer.use_certificate_signer(private_key=root / "256.pem", signing_certificate=root / f"{by}.pem", certificate_chain=[root / "middle.pem"])
            else:
                signer.use_elliptic_key_signer(private_key=root / f"{configuration}.pem")
            signer.set_hashing_config(hashed or hashing.Config())
            signer.sign(model, FOLDER / f"{name}.sig")

        for bits in CURVES:
            sign(f"folder-{bits}", MODEL, bits)
        sign("file-256", FOLDER / "one.bin", "256")
        sign("file-certificate", FOLDER / "one.bin", None, "certificate")
        for kind in leaves:
            sign(kind, MODEL, None, kind)
        sign("parts", MODEL, "256", hashed=hashing.Config().use_shard_serialization(shard_size=100))
        sign("blake2b", MODEL, "256", hashed=hashing.Config().use_file_serialization(hashing_algorithm="blake2"))
        sign("blake3", MODEL, "256", hashed=hashing.Config().use_file_serialization(hashing_algorithm="blake3"))
        for kind in ("certificate", "expired"):
            verifying.Config().use_certificate_verifier(certificate_chain=[FOLDER / "authority.pem"]).verify(MODEL, FOLDER / f"{kind}.sig")


if __name__ == "__main__":
    main()
