#!/usr/bin/env python3
"""Makes server/grpc/descriptors.binpb, which the server's reflection gives to clients: the descriptors of server/grpc/*.proto, by protoc.

Runs in .venv-serving (grpcio-tools). --check: says whether the file is that of the texts, and writes nothing.
"""

import pathlib
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "server/grpc"
PATHS = {"inference.proto": "inference.proto", "health.proto": "grpc/health/v1/health.proto", "reflection.proto": "grpc/reflection/v1/reflection.proto"}


def descriptors():
    with tempfile.TemporaryDirectory() as holder:
        root = pathlib.Path(holder)
        texts = {path: (FOLDER / name).read_text() for name, path in PATHS.items()}
        texts["grpc/reflection/v1alpha/reflection.proto"] = texts[PATHS["reflection.proto"]].replace("grpc.reflection.v1;", "grpc.reflection.v1alpha;")
        for path, text in texts.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", f"--descriptor_set_out={root / 'set'}", *texts], check=True)
        return (root / "set").read_bytes()


if __name__ == "__main__":
    file = FOLDER / "descriptors.binpb"
    if "--check" in sys.argv[1:]:
        sys.exit(file.read_bytes() != descriptors() and f"{file} is not that of its .proto files: run {sys.argv[0]}")
    file.write_bytes(descriptors())
