"""What happens to a validator, to unpackd and to their disk."""

import os
import signal
import struct
import time

MIB = 1024 * 1024


class Events:
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
                elif self.node.state() <= self.node.booted_from()[1]:
                    self.note("         it had no time to write a state")
                    self.ended_by = "early exit"
            else:
                self.node.kill(getattr(signal, self.ended_by))
        lasted = time.monotonic() - self.started
        self.early = self.early + 1 if lasted < 20 else 0
        if self.ended_by != "exit":
            self.forget_tower()
        self.node.keep_logs()
