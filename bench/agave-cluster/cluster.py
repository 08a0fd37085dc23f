#!/usr/bin/env python3
"""A cluster of one unmodified agave-validator, started through unsnap's front end with unpackd beside.

Runs for a while under load, does to it what a year does (signals, kill -9, full disks, flipped
bytes, changed configuration, rotated logs), and checks after each start that the validator is no
worse off than without unsnap. Every fourth start is one without unsnap, to compare. Ends with 1 if
a law was broken. README.md says what is needed.

    ./cluster.py --seed 1 --minutes 60 --agave /opt/agave/bin --unsnap ../../target/release
"""

import argparse
import base64
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

from events import MIB, Events
from load import Load, base58_text
from node import HERE, RPC, Disk, Node, Unpackd
from starts import Starts


class Soak(Starts, Events):
    def __init__(self, options, work, disk):
        self.random, self.options, self.work, self.disk = (
            random.Random(options.seed), options, work, disk)
        self.ledger = disk.path / "ledger"
        self.node = Node(work, self.ledger, options.programs)
        self.unpackd = Unpackd(options.programs["unpackd"], work, self.ledger)
        self.began, self.starts, self.events, self.broken = time.monotonic(), [], {}, []
        self.expected, self.flipped, self.early = 0, False, 0

    def note(self, text):
        print(f"{time.monotonic() - self.began:7.1f}  {text}", flush=True)

    def event(self, name, text=""):
        self.events[name] = self.events.get(name, 0) + 1
        self.note(f"         {name} {text}")

    def law(self, holds, text):
        if not holds:
            self.broken.append(f"start {self.node.number}: {text}")
            self.note(f"BROKEN   {text}")
        return holds

    def round(self, number):
        front = number % 4 != 3
        if front:
            for _ in range(self.random.randrange(3)):
                time.sleep(self.random.uniform(2, 10))
                if self.node.process.poll() is None:
                    self.random.choice([self.fill, self.kill_unpackd, self.reconfigure, self.rotate,
                                        self.flip_ready])()
            time.sleep(self.random.uniform(0, 12))
            self.law(self.unpackd.process.poll() is None, "unpackd has ended by itself")
        else:
            self.law(self.unpackd.end(signal.SIGTERM), "unpackd does not end by SIGTERM")
        self.end()
        if front:
            if self.random.random() < 0.2:
                self.flip_in_place()
            if self.random.random() < 0.15:
                leave = self.random.choice([150, 400])
                self.event("disk nearly full at the start", f"but for {leave} MiB")
                self.disk.fill(leave * MIB)
            time.sleep(self.random.choice([0, 0, 0.5, 3]))
        elif self.ended_by != "exit":
            self.withdraw()
        came_up = self.start(front)
        self.disk.empty()
        if not front:
            self.flipped = False
            self.unpackd.configure(rate=self.random.choice([0, "4MiB"]), min_slots=40,
                                   min_free="256MiB")
            self.unpackd.start()
        return came_up

    def soak(self):
        accounts = self.work / "accounts"
        self.make_accounts(accounts)
        self.node.make_ledger(accounts)
        self.own, self.ended_by = self.node.own(), "nothing"
        self.note("the ledger is made")
        self.unpackd.start()
        self.load = Load(RPC, self.ledger / "faucet-keypair.json", self.options.seed)
        self.load.start()
        came_up = self.start(True)
        deadline = time.monotonic() + 600
        while came_up and not self.node.newest()[1] and time.monotonic() < deadline:
            time.sleep(1)
        self.law(self.node.newest()[1], "no snapshot is ever written")
        number = 0
        while came_up and time.monotonic() - self.began < self.options.minutes * 60:
            number += 1
            came_up = self.round(number)
        self.unpackd.end(signal.SIGTERM)
        if self.node.process.poll() is None:
            self.node.kill(signal.SIGKILL)
        self.node.keep_logs()

    def close(self):
        for process in [self.node.process, self.unpackd.process]:
            if process and process.poll() is None:
                process.kill()
                process.wait()

    def make_accounts(self, directory):
        """Accounts that hold some bytes, so that unpacking takes time and can be interrupted."""
        directory.mkdir()
        for number in range(400):
            data = self.random.randbytes(self.random.randrange(1000, 200_000))
            key = base58_text(b"u" + self.random.randbytes(31))
            account = {"pubkey": key, "account": {
                "lamports": 10**10, "data": [base64.b64encode(data).decode(), "base64"],
                "owner": base58_text(b"o" * 32), "executable": False,
                "rentEpoch": 2**64 - 1, "space": len(data)}}
            (directory / f"{number}.json").write_text(json.dumps(account))

    def table(self):
        print("\n| start | starts | came up | from a state | seconds until the slot moves: "
              "least / median / 90 % / most |\n|---|---|---|---|---|")
        kinds = {
            "through the front end": lambda s: s["front"] and not s["flipped"],
            "  of these from a state": lambda s: s["front"] and not s["flipped"] and s["source"] == "state",
            "through the front end, after a flipped byte": lambda s: s["front"] and s["flipped"],
            "without unsnap": lambda s: not s["front"],
            "  of these from archives": lambda s: not s["front"] and s["source"] == "archives",
        }
        for kind, belongs in kinds.items():
            starts = [start for start in self.starts if belongs(start)]
            times = sorted(start["seconds"] for start in starts if start["up"])
            spread = " / ".join(f"{value:.1f}" for value in (
                times[0], statistics.median(times), times[len(times) * 9 // 10], times[-1])
                ) if times else "–"
            print(f"| {kind} | {len(starts)} | {len(times)} "
                  f"| {sum(start['source'] == 'state' for start in starts)} | {spread} |")
        results = [start["result"] for start in self.starts if start["front"]]
        print("\nfront end:", {result: results.count(result) for result in sorted(set(results))})
        print("events:", dict(sorted(self.events.items())))
        print(f"transfers: {self.load.sent}; seed {self.options.seed}; "
              f"{(time.monotonic() - self.began) / 60:.1f} minutes")
        print(f"laws broken: {len(self.broken)}", *self.broken, sep="\n  ")


def programs(options):
    """Paths of all programs; Agave's are built if they are not there."""
    agave = options.agave.resolve()
    if not (agave / "agave-validator").exists():
        environment = dict(os.environ, CARGO_PROFILE_RELEASE_OPT_LEVEL="1")
        subprocess.run(["cargo", "install", "agave-validator", "--version", "4.2.2", "--locked",
                        "--root", agave.parent], check=True, env=environment)
    found = {name: agave / name for name in ["agave-validator", "solana-test-validator"]}
    unsnap = options.unsnap.resolve()
    found.update({name: unsnap / name for name in ["validator", "unpackd", "ledger-tool"]})
    missing = [str(path) for path in found.values() if not path.exists()]
    if missing:
        sys.exit(f"missing: {', '.join(missing)}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--agave", type=pathlib.Path, default=HERE / "target/agave/bin",
                        help="directory of agave-validator 4.2.2; built if it is not there")
    parser.add_argument("--unsnap", type=pathlib.Path, default=HERE / "../../target/release")
    parser.add_argument("--work", type=pathlib.Path, default=HERE / "target/work")
    parser.add_argument("--disk-gib", type=int, default=6, help="size of the disk, as a sparse file")
    options = parser.parse_args()
    options.programs = programs(options)
    # A shell that starts this in the background lets it ignore SIGINT, and so would the validator.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    work = options.work.resolve()
    if work.exists():
        sys.exit(f"{work} exists; remove what an earlier run has left")
    (work / "logs").mkdir(parents=True)
    (work / "bin").mkdir()
    for name in ["validator", "unpackd", "ledger-tool"]:  # A build may replace them meanwhile.
        options.programs[name] = shutil.copy2(options.programs[name], work / "bin" / name)
    disk = Disk(work, options.disk_gib << 30)
    try:
        soak = Soak(options, work, disk)
        try:
            soak.soak()
        finally:
            soak.close()
    finally:
        disk.close()
    soak.table()
    if not soak.broken:
        shutil.rmtree(work)
    sys.exit(1 if soak.broken else 0)


if __name__ == "__main__":
    main()
