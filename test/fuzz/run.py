"""Runs a fuzzer for some seconds from its corpus with a new seed, which it prints.

usage: run.py FUZZER CORPUS [--seconds N] [--seed N] [--finds]. --finds: the fuzzer has a planted fault and must find it.
"""

import argparse
import pathlib
import secrets
import subprocess
import sys
import tempfile


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fuzzer")
    parser.add_argument("corpus")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31) + 1)
    parser.add_argument("--finds", action="store_true")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpora = [folder] + ([flags.corpus] if pathlib.Path(flags.corpus).is_dir() else [])
        seconds = 60 if flags.finds else flags.seconds
        done = subprocess.run(
            [flags.fuzzer, f"-seed={flags.seed}", f"-max_total_time={seconds}", "-timeout=5", "-rss_limit_mb=1024",
             "-malloc_limit_mb=256", "-max_len=65536", "-print_final_stats=1", f"-artifact_prefix={folder}/", *corpora],
            capture_output=True, text=True, errors="replace")
        runs = [line for line in done.stderr.splitlines() if "stat::number_of_executed_units" in line]
        print(f"{pathlib.Path(flags.fuzzer).name}: seed {flags.seed}, {runs[0].split()[-1] if runs else '?'} executions")
        found = done.returncode != 0
        if found != flags.finds:
            sys.stderr.write(done.stderr[-8000:])
            for path in pathlib.Path(folder).glob("*-*"):
                if path.name.startswith(("crash", "leak", "timeout", "oom", "slow")):
                    print(f"{path.name}: {path.read_bytes()[:4096].hex()}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
