"""Starts of the validator, and the laws that hold after each."""

import json
import os
import signal
import subprocess
import time

from load import rpc
from node import RPC, run

PATIENCE = 150  # seconds until a validator must have come up, and until its roots must have moved
FLIPPED_STARTS = 6  # starts after which a state with a flipped byte must be out of the way


class Starts:
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
        self.disk.empty()  # Most probably that was it.
        if not alone:
            self.event("did not come up without unsnap either")
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
