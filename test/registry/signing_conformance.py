"""Runs the cases of a conformance suite of OpenSSF Model Signing that need no network, and says which of them are not as expected.

    test/registry/signing_conformance.py --cases SUITE/test

By hand: the suite (github.com/sampras343/model-signing-conformance) is another project's. A case is a folder with config.json: a
model, a key or a chain, what is changed before, and whether it is to be verified. Cases with `sign` are signed first.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TENON = pathlib.Path(os.environ.get("TENON_BUILD_DIR", "build/dev")).resolve() / "bin/tenon"


def change(model, changes):
    for name, text in {**changes.get("tamper", {}), **changes.get("inject", {})}.items():
        (model / name).write_text(text)
    for name in changes.get("delete", []):
        (model / name).unlink()
    for name, target in changes.get("symlinks", {}).items():
        (model / name).symlink_to(target)


def run(*arguments):
    done = subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return done.returncode == 0, done.stderr.strip()


def outcome(case, config, assets, root):
    """Whether all of it was verified, and what was said."""
    source = (case if config.get("model_relative_to") == "test_dir" else assets) / config["model"]
    model = root / ("model" if source.is_dir() else source.name)
    shutil.copytree(source, model) if source.is_dir() else shutil.copy(source, model)
    change(model, config.get("model_modifications") or {})
    sign, verify = config.get("sign"), config.get("verify", {})
    ignored = [part for path in verify.get("ignore_paths", []) for part in ("--ignore", path)]
    bundle = case / "bundle.sig"
    if sign:
        bundle = (model if config.get("sig_inside_model") else root) / "bundle.sig"
        chain = [part for path in [sign.get("signing_cert"), *sign.get("cert_chain", [])] if path for part in ("--certificate-chain", assets / path)]
        done, said = run("sign", model, "--key", assets / sign["private_key"], "-o", bundle, *chain, *ignored)
        if not done:
            return done, said
        if verify.get("ignore_unsigned_files"):
            (model / "injected.bin").write_text("injected after signing")
    trusted = verify.get("cert_chain", [verify.get("public_key")])
    unsigned = ["--ignore-unsigned"] if verify.get("ignore_unsigned_files") else []
    return run("verify", model, "--signature", bundle, *(part for path in trusted for part in ("--trusted", assets / path)), *ignored, *unsigned)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=pathlib.Path, required=True, help="the folder with assets and test-cases")
    options = parser.parse_args()
    counts, wrong = {}, 0
    for path in sorted(options.cases.glob("test-cases/**/config.json")):
        config, case = json.loads(path.read_text()), path.parent
        kind = "needs the network" if config["method"] == "sigstore" else str(case.parent.relative_to(options.cases / "test-cases"))
        counts[kind] = counts.get(kind, 0) + 1
        if kind == "needs the network":
            continue
        with tempfile.TemporaryDirectory() as root:
            verified, said = outcome(case, config, options.cases / "assets", pathlib.Path(root))
        if verified != (config.get("expect", "pass") == "pass"):
            wrong += 1
            print(f"{kind}/{case.name}: {'verified' if verified else 'refused'}. {said}")
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(counts.items())) + f"; not as expected: {wrong}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
