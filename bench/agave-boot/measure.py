#!/usr/bin/env python3
"""Measures the time from an archive, or from a ready state, to the validator's bank.

    cargo build --release --locked
    target/release/agave-boot grow --genesis ../../tests/data/agave-tiny/genesis.bin \\
        --archives ../../tests/data/agave-tiny --bytes 5000000000 --output ARCHIVES
    ./measure.py --archives ARCHIVES --work DIR --rounds 5

Each round runs every variant once, in turn, each in fresh directories; what it reads is out of the page
cache before. A variant ends when agave-boot has its bank. The last line is a table, as JSON: seconds of
every round, and the median ratio to `agave` with its spread.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def evict(directory):
    """Drops the pages of all files below a directory from the page cache."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Place:
    """Fresh directories of a node."""

    def __init__(self, args):
        self.args = args
        self.root = args.work / "node"
        shutil.rmtree(self.root, ignore_errors=True)
        self.ledger, self.accounts = self.root / "ledger", self.root / "accounts"
        self.ledger.mkdir(parents=True)
        self.accounts.mkdir()
        for archive in args.archives.glob("*.tar.*"):
            os.link(archive, self.ledger / archive.name)
        evict(self.ledger)

    def own(self):
        return ["--ledger", self.ledger, "--snapshots", self.ledger, "--accounts", self.accounts]

    def agave(self):
        """Agave alone, from the archives."""
        return [self.args.boot, "--as-validator", "archives", "--genesis", self.args.genesis,
                "--archives", self.ledger, "--scratch", self.root]

    def unsnap(self, *flags):
        """The front end, which becomes Agave."""
        return [self.args.unsnap / "validator", "-q", *flags, *self.own(), "--",
                self.args.boot, "--as-validator", "directory", "--in-place", "--genesis", self.args.genesis,
                "--snapshots", self.ledger, "--accounts", self.accounts]

    def prepare(self):
        command = [self.args.unsnap / "validator", "-q", "--prepare-only", *self.own()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        evict(self.root)

    def until_bank_all_cached(self):
        """The best that reading ahead could do."""
        self.prepare()
        for storage in (self.accounts / "run").iterdir():
            storage.read_bytes()
        return self.until_bank(self.unsnap("--leave-cached", "off"))

    def until_bank(self, command):
        """Runs a command until it has a bank; returns the seconds."""
        since = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        loaded = None
        for line in process.stdout:
            if json.loads(line).get("event") == "loaded":
                loaded = time.monotonic() - since
                process.kill()
                break
        process.wait()
        if loaded is None:
            sys.exit(f"no bank: {' '.join(map(str, command))}")
        return loaded


def variants(args):
    def ready(*flags):
        def run(place):
            place.prepare()
            return place.until_bank(place.unsnap(*flags))
        return run

    found = {
        "agave": lambda place: place.until_bank(place.agave()),
        "archive": lambda place: place.until_bank(place.unsnap()),
        "archive, not cached":
            lambda place: place.until_bank(place.unsnap("--leave-cached", "off")),
        "ready": ready(),
        "ready, not cached": ready("--leave-cached", "off"),
    }
    found["ready, all cached"] = lambda place: place.until_bank_all_cached()
    for extra in args.also:
        found[f"archive {extra}"] = (
            lambda place, extra=extra: place.until_bank(place.unsnap(*extra.split())))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archives", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--genesis", type=pathlib.Path,
                        default=ROOT / "tests/data/agave-tiny/genesis.bin")
    parser.add_argument("--boot", type=pathlib.Path, default=HERE / "target/release/agave-boot")
    parser.add_argument("--unsnap", type=pathlib.Path, default=ROOT / "target/release")
    parser.add_argument("--also", action="append", default=[], metavar="FLAGS",
                        help="a variant of the front end with these flags")
    parser.add_argument("--only", nargs="+", metavar="VARIANT", help="no other variants")
    args = parser.parse_args()
    found = variants(args)
    if args.only:
        found = {name: run for name, run in found.items() if name in ["agave", *args.only]}
    seconds = {name: [] for name in found}
    for _ in range(args.rounds):
        for name, run in found.items():
            seconds[name].append(round(run(Place(args)), 2))
            print(name, seconds[name][-1], file=sys.stderr, flush=True)
    shutil.rmtree(args.work / "node", ignore_errors=True)
    base = seconds["agave"]
    table = {}
    for name, times in seconds.items():
        ratios = sorted(mine / theirs for mine, theirs in zip(times, base))
        table[name] = {"seconds": times, "median": round(statistics.median(times), 2),
                       "ratio": [round(ratios[0], 2), round(statistics.median(ratios), 2),
                                 round(ratios[-1], 2)]}
    print(json.dumps(table))


if __name__ == "__main__":
    main()
