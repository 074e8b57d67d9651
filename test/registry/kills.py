"""Kills a process at work on a registry at any moment, and cuts its power; then everything that was acknowledged is there.

    test/registry/kills.py --kills 10000 --cuts 1000 --clients 1000 --servers 500 [--ledger FILE]

A kill leaves what the process wrote; a cut leaves of each page of a file and each name in a folder what was flushed or, by chance,
what came after (Power.cpp notes every flush). Relies on the programs registry_driver and registry_power of the build. Without
arguments it is a test of a minute: some of both, and six planted faults (a flush left out, an order broken), each of which must be
found. The same over PostgreSQL and S3 (shared.py): `--clients` kills the process, `--servers` the database under it.
"""

import argparse
import datetime
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import shared  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TENON_BUILD_DIR", "build/dev")).resolve()
DRIVER, POWER = BUILD / "test/registry/registry_driver", BUILD / "test/registry/libregistry_power.so"
PAGE = 4096
PART = 500
# Nothing is to survive this machine, so no real disk has to be waited for.
MEMORY = pathlib.Path("/dev/shm")


class Disk:
    """A registry's folder, and beside it what would be left of it without power."""

    def __init__(self, root, drop, chance):
        self.real, self.image, self.drop, self.chance = root / "disk", root / "image", drop, chance
        self.real.mkdir()
        self.adopt()

    def environment(self):
        return dict(os.environ, LD_PRELOAD=str(POWER), POWER_IMAGE=str(self.image), POWER_DROP=self.drop)

    def adopt(self):
        """What is there now is on the disk."""
        shutil.rmtree(self.image, ignore_errors=True)
        self.image.mkdir()
        for folder, folders, files in os.walk(self.real):
            names = []
            for name in folders + files:
                facts = os.lstat(os.path.join(folder, name))
                names.append(f"{facts.st_ino} {'d' if name in folders else 'f'} {name}\n")
                if name in files:
                    shutil.copy(os.path.join(folder, name), self.image / f"f{facts.st_ino}")
            (self.image / f"d{os.stat(folder).st_ino}").write_text("".join(names))

    def cut(self):
        """The state after a power cut takes the place of the one before it."""
        old = self.real.with_name("old")
        self.real.rename(old)
        self.restore(old.stat().st_ino, old, self.real)
        shutil.rmtree(old)
        self.adopt()

    def restore(self, inode, now, target):
        """A folder: each name as it was flushed or as it is now, where the two differ."""
        target.mkdir()
        known = self.image / f"d{inode}"
        flushed = {}
        for line in known.read_text().splitlines() if known.exists() else []:
            number, kind, name = line.split(" ", 2)
            flushed[name] = (int(number), kind)
        present = {entry.name: (entry.inode(), "d" if entry.is_dir() else "f") for entry in os.scandir(now)} if now else {}
        for name in sorted(flushed.keys() | present.keys()):
            choice = flushed.get(name) if flushed.get(name) == present.get(name) or self.chance.random() < 0.5 else present.get(name)
            if choice is None or name.endswith("-shm"):
                continue
            number, kind = choice
            path = now / name if now and present.get(name, (0,))[0] == number else None
            if kind == "d":
                self.restore(number, path, target / name)
            else:
                (target / name).write_bytes(self.content(number, path))

    def content(self, inode, path):
        """The bytes of a file: each page as it was flushed, or as it was written later."""
        known = self.image / f"f{inode}"
        flushed = known.read_bytes() if known.exists() else b""
        written = path.read_bytes() if path else flushed
        if flushed == written:
            return flushed
        length = self.chance.choice([len(flushed), len(written)])
        pages = [self.chance.choice([flushed, written])[start:start + PAGE].ljust(PAGE, b"\0") for start in range(0, length, PAGE)]
        return b"".join(pages)[:length]


class Ledger:
    """What the driver was told is done, and what it had begun."""

    def __init__(self, expected=()):
        """Errors that end the driver's work and are no faults are `expected`."""
        self.versions, self.aliases, self.tried, self.expected = {}, {}, {}, expected

    def read(self, text):
        for line in text.splitlines(keepends=True):
            word, *rest = line.split()
            if not line.endswith("\n") or word == "open" or (word == "error" and rest[0] in self.expected):
                continue
            if word == "push":
                self.versions[rest[0], int(rest[1])] = rest[2]
            elif word == "try":
                self.tried[rest[0]] = int(rest[1])
            elif word == "move":
                self.tried.pop(rest[0], None)
                if rest[1] != "-":
                    self.aliases[rest[0]] = int(rest[1])
            else:
                return [line.strip()]
        return []

    def compare(self, text):
        """What is wrong with what `check` says is there."""
        rows = [line.split() for line in text.splitlines()]
        faults = [" ".join(row) for row in rows if row[0] == "error"]
        versions = {(row[1], int(row[2])): row[3] for row in rows if row[0] == "version"}
        aliases = {row[1]: int(row[2]) for row in rows if row[0] == "alias"}
        faults += [f"{key} was acknowledged with {value} and is {versions.get(key)}" for key, value in self.versions.items() if versions.get(key) != value]
        for name in self.aliases.keys() | aliases.keys():
            at, told, tried = aliases.get(name), self.aliases.get(name), self.tried.get(name)
            # A move that was begun may have happened: to where it was to go; 0 is a rollback, to anywhere.
            if at != told and (tried is None or (tried != 0 and at != tried)):
                faults.append(f"alias of {name} was acknowledged at {told} and is at {at}")
        self.versions, self.aliases, self.tried = versions, aliases, {}
        return faults


def said(work, chance, longest, planted):
    """Waits for the moment of a kill, and gives what the driver said until then: mostly while it works; sometimes while it starts, and
    makes the registry. A planted fault is met where something was acknowledged that is not on the disk, however slow the machine is.
    """
    lines = [work.stdout.readline() if planted or chance.random() < 0.8 else ""]
    while planted and lines[-1] and not lines[-1].startswith("push "):
        lines.append(work.stdout.readline())
    time.sleep(chance.uniform(0, longest))
    return "".join(lines)


def cycle(disk, ledger, scratch, chance, cuts):
    """Work, a kill, perhaps a power cut; the faults that are found."""
    environment = disk.environment() if cuts or disk.drop else None
    work = subprocess.Popen([DRIVER, "work", disk.real / "r", scratch, str(chance.getrandbits(63))], stdout=subprocess.PIPE, text=True, env=environment)
    first = said(work, chance, 0.06, disk.drop)
    work.kill()
    faults = ledger.read(first + work.communicate()[0])
    if cuts:
        disk.cut()
    check = subprocess.run([DRIVER, "check", disk.real / "r"], stdout=subprocess.PIPE, text=True, timeout=60, env=environment)
    faults += ledger.compare(check.stdout)
    if check.returncode != 0 and not faults:
        faults = [f"check ended with {check.returncode}: {check.stdout}"]
    return faults


def campaign(cycles, cuts, seed, drop="", fresh=25):
    """(cycles done, faults of the first one that had any). Each registry lives for a number of cycles."""
    chance, done = random.Random(seed), 0
    while done < cycles:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
            root = pathlib.Path(name)
            disk, ledger = Disk(root, drop, chance), Ledger()
            (root / "scratch").mkdir()
            for _ in range(min(fresh, cycles - done)):
                faults = cycle(disk, ledger, root / "scratch", chance, cuts)
                done += 1
                if faults:
                    return done, faults
    return done, []


def shared_cycle(servers, where, ledger, scratch, chance, kills_server, planted=False):
    """Work over PostgreSQL and S3, and a kill of the process or of the database; the faults that are found."""
    environment = dict(os.environ, **servers.environment, XDG_CACHE_HOME=str(scratch))
    if planted:
        servers.postgres.hold_log()
    work = subprocess.Popen([DRIVER, "work", where, scratch, str(chance.getrandbits(63))], stdout=subprocess.PIPE, text=True, env=environment)
    first = said(work, chance, 0.3, planted)
    if kills_server:
        servers.postgres.stop()
        servers.postgres.start()
        time.sleep(0.1)  # what was in doubt is looked up, and said
    work.kill()
    faults = ledger.read(first + work.communicate()[0])
    check = subprocess.run([DRIVER, "check", where], stdout=subprocess.PIPE, text=True, timeout=60, env=environment)
    faults += [] if check.stdout == "none\n" and not ledger.versions else ledger.compare(check.stdout)
    return faults


def shared_campaign(servers, cycles, kills_server, seed, late=False, fresh=25):
    """As `campaign`; `late` is the planted fault of the database's proxy."""
    chance, done = random.Random(seed), 0
    proxy = shared.PostgresProxy(servers.postgres, late)
    try:
        while done < cycles:
            where, ledger = servers.postgres.url(servers.query(f"k{seed}_{done}_{int(kills_server)}{int(late)}"), proxy.folder if late else None), Ledger(("TN1013:",))
            with tempfile.TemporaryDirectory() as scratch:
                for _ in range(min(fresh, cycles - done)):
                    faults = shared_cycle(servers, where, ledger, pathlib.Path(scratch), chance, kills_server, late)
                    done += 1
                    if faults:
                        return done, faults
        return done, []
    finally:
        proxy.close()


@unittest.skipIf(shared.missing(), shared.missing())
class SharedKills(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = shared.Shared()
        cls.addClassCleanup(cls.servers.close)

    def test_clients(self):
        done, faults = shared_campaign(self.servers, 6, False, 4)
        self.assertEqual([], faults, f"in cycle {done}")

    def test_servers(self):
        done, faults = shared_campaign(self.servers, 5, True, 5)
        self.assertEqual([], faults, f"in cycle {done}")

    def test_planted(self):
        _, faults = shared_campaign(self.servers, 1, True, 6, late=True)
        self.assertRegex("\n".join(faults), "was acknowledged with .* and is None")


class Kills(unittest.TestCase):
    def test_kills(self):
        done, faults = campaign(60, False, 1)
        self.assertEqual([], faults, f"in cycle {done}")

    def test_cuts(self):
        done, faults = campaign(40, True, 2)
        self.assertEqual([], faults, f"in cycle {done}")

    def test_planted(self):
        """Without one flush, or with a name given before the bytes, something that was acknowledged is lost."""
        for drop, cuts in (("blob", True), ("names", True), ("log", True), ("database", True), ("late-rename", False)):
            with self.subTest(drop=drop):
                done, faults = campaign(60, cuts, 3, drop)
                self.assertTrue(faults, f"nothing was found in {done} cycles")


def run_in_parts(what, cycles, seed, ledger, work):
    """Runs work(cycles, seed) -> (done, faults) in parts, so that a campaign that is ended has its ledger; whether there was a fault."""
    failed = False
    for begun in range(0, cycles, PART):
        start = time.monotonic()
        done, faults = work(min(PART, cycles - begun), seed + begun)
        line = f"| {datetime.date.today()} | {what} | {seed + begun} | {done} | {len(faults)} | {time.monotonic() - start:.0f} s |"
        print(line, *faults, sep="\n", flush=True)
        failed = failed or bool(faults)
        if ledger:
            with ledger.open("a") as lines:
                lines.write(line + "\n")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--cuts", type=int, default=0)
    parser.add_argument("--clients", type=int, default=0)
    parser.add_argument("--servers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--drop", default="", help="a fault to plant: blob, names, log, database, late-rename")
    parser.add_argument("--ledger", type=pathlib.Path, help="a file that gets a line for each 500 cycles")
    options = parser.parse_args()
    failed = False
    servers = shared.Shared() if options.clients or options.servers else None
    campaigns = [("kill -9", options.kills, lambda count, seed: campaign(count, False, seed, options.drop)),
                 ("power cuts", options.cuts, lambda count, seed: campaign(count, True, seed, options.drop)),
                 ("kill -9, PostgreSQL and S3", options.clients, lambda count, seed: shared_campaign(servers, count, False, seed)),
                 ("PostgreSQL killed", options.servers, lambda count, seed: shared_campaign(servers, count, True, seed))]
    for what, cycles, work in campaigns:
        failed = run_in_parts(what, cycles, options.seed, options.ledger, work) or failed
    if servers:
        servers.close()
    sys.exit(failed)


if __name__ == "__main__":
    main() if any(argument.startswith("--") for argument in sys.argv[1:]) else unittest.main()
