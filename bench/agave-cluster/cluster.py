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
import struct
import subprocess
import sys
import time

from load import Load, rpc
from node import FULL, HERE, RPC, Disk, Node, Unpackd, run

MIB = 1024 * 1024
PATIENCE = 150  # seconds until a validator must have come up, and until its roots must have moved
FLIPPED_STARTS = 6  # starts after which a state with a flipped byte must be out of the way


class Soak:
    def __init__(self, options, work, disk):
        self.random, self.options, self.work, self.disk = (
            random.Random(options.seed), options, work, disk)
        self.ledger = disk.path / "ledger"
        self.node = Node(work, self.ledger, options.programs, options.seed)
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

    # Starts.

    def begin(self, front):
        """Starts the validator, and tells what it may not be worse than."""
        slot, names = self.node.newest()
        state = self.node.state() if self.ended_by == "exit" else 0
        self.expected, self.kept = max(slot, state), names
        self.towers = {path.name for path in self.ledger.glob("tower-1_9-*.bin")}
        self.node.start(front)
        self.started = time.monotonic()

    def meddle(self):
        """Sometimes something happens while the front end prepares; true if that ends the start."""
        what = self.random.choice(["rotate", "rotate", "stop", "kill", *["nothing"] * 6])
        delay = self.random.uniform(0, 0.4)
        if what == "nothing":
            return False
        time.sleep(delay)
        number = {"rotate": signal.SIGUSR1, "stop": signal.SIGTERM, "kill": signal.SIGKILL}[what]
        if not self.node.still_in_front():
            return False
        os.kill(self.node.process.pid, number)
        if what == "rotate":
            time.sleep(0.01)
            if self.node.still_in_front():
                self.event("SIGUSR1 to the front end", f"after {delay:.2f} s")
            elif self.ended(5) == -number:
                return True  # It became the validator between two of these lines: not ours.
            return False
        end = self.ended(30)
        self.event(f"{signal.Signals(number).name} to the front end", f"after {delay:.2f} s")
        self.law(end is not None, "the front end does not end by a signal")
        if end is None:
            self.node.kill(signal.SIGKILL)
        return True

    def ended(self, patience):
        try:
            return self.node.process.wait(patience)
        except subprocess.TimeoutExpired:
            return None

    def slot_moves(self):
        """Seconds until the slot moves; None if the validator ends by itself, or never."""
        first, deadline = None, self.started + PATIENCE
        while time.monotonic() < deadline and self.node.process.poll() is None:
            slot = rpc(RPC, "getSlot", {"commitment": "processed"})
            first = slot if first is None else first
            if slot is not None and slot > first:
                return time.monotonic() - self.started
            time.sleep(0.03)
        return None

    def root_moves(self):
        deadline, first = time.monotonic() + PATIENCE, None
        while time.monotonic() < deadline and self.node.process.poll() is None:
            root = rpc(RPC, "getSlot", {"commitment": "finalized"})
            first = root if first is None else first
            if root is not None and root > first:
                return True
            time.sleep(0.2)
        return False

    def start(self, front):
        """Starts until the validator has come up, and checks every law."""
        for attempt in range(1, FLIPPED_STARTS + 1):
            self.begin(front)
            if front and self.meddle():
                self.node.keep_logs()
                self.ended_by = "front end"
                continue
            seconds = self.slot_moves()
            source, slot = self.node.booted_from()
            result = self.result(front)
            self.note(f"start {self.node.number}: {'unsnap' if front else 'plain'}, {result}, slot "
                      f"{slot} from {source} (newest {self.expected}), "
                      + (f"moves after {seconds:.1f} s" if seconds else "did not come up"))
            if seconds:
                break
            code = self.node.process.poll()
            if code is None:
                self.node.kill(signal.SIGKILL)
            self.starts.append({"front": front, "up": False, "source": source, "flipped": self.flipped,
                                "result": result})
            self.node.keep_logs()
            if not self.flipped and not self.worse_without(front, code):
                return False
            self.early, self.ended_by = self.early + 1, "itself"
        else:
            return self.law(False, f"did not come up in {FLIPPED_STARTS} starts")
        self.starts.append({"front": front, "up": True, "source": source, "seconds": seconds,
                            "flipped": self.flipped, "result": result})
        older = slot < self.expected and self.early < 2
        self.law(not older, f"booted at slot {slot}, older than {self.expected} of without unsnap")
        self.law(self.node.own() == self.own, "genesis or a key is missing or has changed")
        self.law(all((self.ledger / name).exists() for name in self.towers), "the tower is missing")
        bad = [path.name for path in self.ledger.rglob("*.unsnap-bad")]
        self.law(not bad, f"archives were set aside as bad: {bad}")
        for name in self.kept:
            # The validator removes an archive only for newer ones.
            gone = not (self.ledger / name).exists() and self.node.newest()[0] <= self.expected
            self.law(not gone, f"{name} is missing")
        self.law(self.root_moves(), "roots do not move: it does not vote")
        self.flipped = False
        return True

    def worse_without(self, front, code):
        """Whether the validator fails without unsnap just so, for which unsnap has no blame."""
        if not front:
            return self.law(False, f"the validator ended without unsnap, too (script?): {code}")
        self.note(f"         ended by itself ({code}); without unsnap?")
        self.withdraw()
        self.forget_tower()
        self.begin(False)
        alone = self.slot_moves()
        self.node.kill(signal.SIGKILL)
        self.node.keep_logs()
        self.forget_tower()
        return self.law(not alone, f"did not come up through the front end ({code}), but without it")

    def result(self, front):
        if not front:
            return "alone"
        try:
            return json.loads((self.ledger / ".unsnap-last-start.json").read_text())["result"]
        except (OSError, ValueError):
            return "no report"

    def withdraw(self):
        done = run(self.options.programs["ledger-tool"], "fastboot", "withdraw", "--ledger", self.ledger)
        self.law(done.returncode == 0, f"withdraw: {done.stderr}")

    def forget_tower(self):
        """A single node has voted for slots that its blockstore may have lost with a crash."""
        for path in self.ledger.glob("tower-*"):
            path.unlink()

    # Events.

    def fill(self):
        leave = self.random.choice([0, 8, 100, 200]) * MIB
        seconds = self.random.uniform(3, 12)
        self.event("disk filled", f"but for {leave // MIB} MiB, for {seconds:.0f} s")
        self.disk.fill(leave)
        time.sleep(seconds)
        self.disk.empty()

    def kill_unpackd(self):
        self.law(self.unpackd.end(signal.SIGKILL), "unpackd had ended by itself")
        self.event("SIGKILL to unpackd")
        self.unpackd.start()

    def reconfigure(self):
        bad = self.random.random() < 0.3
        if bad:
            self.unpackd.config.write_text(self.random.choice(["[nonsense]\n", "rate = [", ""]))
        else:
            self.unpackd.configure(rate=self.random.choice([0, "1MiB", "4MiB", "20MiB"]),
                                   min_slots=self.random.choice([0, 40, 40, 160]),
                                   min_free=self.random.choice(["64MiB", "256MiB", "1GiB"]))
        self.event("configuration reloaded", "(an invalid one)" if bad else "")
        self.unpackd.process.send_signal(signal.SIGHUP)
        time.sleep(1)
        self.law(self.unpackd.process.poll() is None, "unpackd ended when its configuration changed")
        if bad:
            self.unpackd.configure(rate=0, min_slots=40, min_free="256MiB")

    def rotate(self):
        log = self.node.log
        log.replace(log.with_suffix(".log.1"))
        self.event("SIGUSR1 to the validator")
        os.kill(self.node.process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + 20
        while not log.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.law(log.exists() and self.node.process.poll() is None, "logs are not rotated")

    def flip(self, storages, apart):
        """Flips a byte of an account; `apart` in a copy, so that no hard link shares it."""
        chosen = [path for path in sorted(storages) if path.stat().st_size > 200]
        if not chosen:
            return False
        path = self.random.choice(chosen)
        content = bytearray(path.read_bytes())
        at = 0
        for _ in range(self.random.randrange(4)):  # an account is 136 bytes and its data
            after = (at + 136 + struct.unpack_from("<Q", content, at + 8)[0] + 7) & ~7
            if after + 136 >= len(content):
                break
            at = after
        at += self.random.choice([48, 136])  # a byte of lamports, or the first of data
        at = min(at, len(content) - 1)
        content[at] ^= 1 << self.random.randrange(8)
        if apart:
            copy = path.with_name(".copy")
            copy.write_bytes(content)
            copy.replace(path)
        else:
            with path.open("r+b") as file:
                file.write(content)
        self.event(f"byte flipped in {'the ready state' if apart else 'the state in place'}",
                   f"{path.relative_to(self.ledger)} at {at}")
        self.flipped = True
        return True

    def flip_ready(self):
        try:
            self.flip((self.ledger / "accounts/.unsnap-ready/run").glob("*.*"), True)
        except OSError:
            pass  # unpackd has just replaced or moved it.

    def flip_in_place(self):
        if self.ended_by != "exit":  # The validator has removed some; the shadow has them all.
            self.flip((self.ledger / "accounts/unsnap-shadow").glob("**/*.*"), False)
        else:
            self.flip((self.ledger / "accounts/run").glob("*.*"), False)

    def end(self):
        """Ends the validator in one of the ways in which validators end."""
        if self.node.process.poll() is not None:
            self.ended_by = "itself"
            self.note(f"         the validator had ended: {self.node.process.returncode}")
        else:
            self.ended_by = self.random.choice(["exit", "SIGTERM", "SIGINT", "SIGKILL", "SIGKILL"])
            self.event(f"{self.ended_by} to the validator")
            if self.ended_by == "exit":
                self.node.exit()
                if self.ended(90) is None:
                    self.note("         did not end by exit")
                    self.node.kill(signal.SIGKILL)
                    self.ended_by = "SIGKILL"
            else:
                self.node.kill(getattr(signal, self.ended_by))
        lasted = time.monotonic() - self.started
        self.early = self.early + 1 if lasted < 20 else 0
        if self.ended_by != "exit":
            self.forget_tower()
        self.node.keep_logs()

    # The soak.

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
                self.event("disk nearly full at the start")
                self.disk.fill(150 * MIB)
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


def base58_text(content):
    from load import ALPHABET
    number, text = int.from_bytes(content, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABET[digit] + text
    return text


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
