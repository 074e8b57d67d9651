"""Cuts the power of a real file system under a process at work on a registry; then everything that was acknowledged is there.

    sudo test/registry/shutdowns.py --cuts 1000 [--kind xfs] [--ledger FILE] [--drop blob]

An image in memory is mounted by a loop device and shut down by the file system's own ioctl without its log being flushed, as at a
power cut; it is unmounted, mounted again (the log is replayed), and looked at. By hand: it needs root and mkfs. `--drop` leaves
one kind of flush out, which must be found: blob or log (of SQLite). A name's flush cannot be missed on ext4 and xfs, whose logs
keep the order of all names: SQLite's next flush brings it to the disk. kills.py has a disk without that order.
"""

import argparse
import fcntl
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

from kills import DRIVER, MEMORY, POWER, Ledger, run_in_parts

# EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN are one number, _IOR('X', 125, __u32), and one flag for "without the log".
SHUTDOWN, WITHOUT_LOG = 0x8004587D, 2
MEBIBYTES = {"ext4": 64, "xfs": 320}
FRESH = 50


class Mounted:
    """A file system of its own, mounted at `place`."""

    def __init__(self, root, kind):
        self.image, self.place, self.kind = root / "image", root / "place", kind
        self.place.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(MEBIBYTES[kind] << 20)
        subprocess.run([f"mkfs.{kind}", "-q", self.image], check=True)
        self.mount()

    def mount(self):
        subprocess.run(["mount", "-t", self.kind, "-o", "loop", self.image, self.place], check=True)

    def unmount(self):
        subprocess.run(["umount", self.place], check=True)

    def shut_down(self):
        folder = os.open(self.place, os.O_RDONLY)
        fcntl.ioctl(folder, SHUTDOWN, struct.pack("I", WITHOUT_LOG))
        os.close(folder)


def acknowledged(text):
    """The lines that count. The last move, if it ended in the disk's error, may have happened or not."""
    lines = text.splitlines(keepends=True)
    if lines and lines[-1].startswith("error "):
        lines.pop()
        if lines and lines[-1].startswith("move ") and lines[-1].endswith(" -\n"):
            lines.pop()
    return "".join(lines)


def state_of(process):
    return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]


def cycle(disk, ledger, scratch, chance, environment):
    work = subprocess.Popen([DRIVER, "work", disk.place / "r", scratch, str(chance.getrandbits(63))], stdout=subprocess.PIPE, text=True, env=environment)
    first = work.stdout.readline() if chance.random() < 0.8 else ""
    time.sleep(chance.uniform(0, 0.1))
    work.send_signal(signal.SIGSTOP)  # at a power cut nobody hears of what is acknowledged later
    while state_of(work.pid) != "T":
        time.sleep(0.0005)
    disk.shut_down()
    work.kill()
    faults = ledger.read(acknowledged(first + work.communicate()[0]))
    disk.unmount()
    disk.mount()
    check = subprocess.run([DRIVER, "check", disk.place / "r"], stdout=subprocess.PIPE, text=True, timeout=60)
    faults += ledger.compare(check.stdout)
    return faults or ([f"check ended with {check.returncode}: {check.stdout}"] if check.returncode else [])


def campaign(cuts, seed, kind, drop):
    """(cuts done, faults of the first one that had any). Each file system lives for a number of cuts."""
    chance, done = random.Random(seed), 0
    environment = dict(os.environ, LD_PRELOAD=str(POWER), POWER_DROP=drop) if drop else None
    while done < cuts:
        with tempfile.TemporaryDirectory(dir=MEMORY) as name:
            root = pathlib.Path(name)
            (root / "scratch").mkdir()
            disk, ledger = Mounted(root, kind), Ledger()
            try:
                for _ in range(min(FRESH, cuts - done)):
                    faults = cycle(disk, ledger, root / "scratch", chance, environment)
                    done += 1
                    if faults:
                        return done, faults
            finally:
                disk.unmount()
    return done, []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=1000)
    parser.add_argument("--kind", choices=sorted(MEBIBYTES), default="ext4")
    parser.add_argument("--drop", choices=["blob", "log"], default="", help="a flush to leave out")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--ledger", type=pathlib.Path, help="a file that gets a line for each 500 cuts")
    options = parser.parse_args()
    if "TENON_MOUNTS" not in os.environ:
        # In a name space of its own: a process that copies all mounts would keep these from ending.
        os.environ["TENON_MOUNTS"] = "own"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    what = f"{options.kind} shut down" + (f", without the flush of {options.drop}" if options.drop else "")
    sys.exit(run_in_parts(what, options.cuts, options.seed, options.ledger, lambda count, seed: campaign(count, seed, options.kind, options.drop)))


if __name__ == "__main__":
    main()
