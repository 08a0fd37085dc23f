"""One node: its disk, its ledger, the validator with or without unsnap in front, unpackd beside."""

import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from load import rpc

HERE = pathlib.Path(__file__).resolve().parent
PORT = 20_000  # gossip 50 above, RPC 99 above
RPC = PORT + 99
LOCAL = ["--bind-address", "127.0.0.1", "--gossip-port", str(PORT + 50), "--rpc-port", str(RPC),
         "--dynamic-port-range", f"{PORT}-{PORT + 30}"]
FULL = re.compile(r"snapshot-(\d+)-\w+\.tar\.zst$")
INCREMENTAL = re.compile(r"incremental-snapshot-(\d+)-(\d+)-\w+\.tar\.zst$")
STATE = re.compile(r"Loading bank from snapshot dir: \S*/(\d+)")
ARCHIVES = re.compile(r"Loading bank from full snapshot archive: (\S+), and incremental snapshot "
                      r'archive: (?:Some\("(\S+)"\)|None)')

UNPACKD = """\
[archives]
directory = "{ledger}"
rescan = "1s"
settle = "1s"
[[target]]
name = "validator"
kind = "fastboot"
ledger = "{ledger}"
[neighbour]
rate-limit = "{rate}"
min-free = "{min_free}"
[cadence]
min-slots = {min_slots}
[retry]
first = "2s"
most = "10s"
[service]
state-directory = "{work}/unpackd"
[control]
socket = "{work}/unpackd.sock"
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, **options)


class Disk:
    """A file system of its own, which can be filled: ext4 on a loop device, as root."""

    def __init__(self, work, size):
        self.path, self.ballast = work / "disk", work / "disk/ballast"
        self.path.mkdir()
        self.image = work / "disk.img"
        with self.image.open("wb") as file:
            file.truncate(size)
        run("mkfs.ext4", "-q", "-m", "0", self.image, check=True)
        run("mount", "-o", "loop", self.image, self.path, check=True)

    def free(self):
        free = os.statvfs(self.path)
        return free.f_bavail * free.f_frsize

    def fill(self, leave):
        size = self.free() - leave
        if size > 0:
            run("fallocate", "-l", size, self.ballast)

    def empty(self):
        self.ballast.unlink(missing_ok=True)

    def close(self):
        run("umount", "-l", self.path)


class Unpackd:
    def __init__(self, program, work, ledger):
        self.program, self.work, self.ledger = program, work, ledger
        self.config, self.process, self.starts = work / "unpackd.toml", None, 0
        self.configure(rate=0, min_slots=40, min_free="256MiB")

    def configure(self, rate, min_slots, min_free):
        self.config.write_text(UNPACKD.format(
            work=self.work, ledger=self.ledger, rate=rate, min_slots=min_slots, min_free=min_free))

    def start(self):
        self.starts += 1
        log = (self.work / "unpackd.log").open("a")
        self.process = subprocess.Popen(
            [self.program, "--config", self.config, "--log-format", "text"], stderr=log, stdout=log)

    def end(self, number):
        """Ends it; false if it had ended by itself, or does not end in time."""
        alive = self.process.poll() is None
        self.process.send_signal(number)
        try:
            self.process.wait(90)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return False
        return alive


class Node:
    def __init__(self, work, ledger, programs):
        self.work, self.ledger, self.programs = work, ledger, programs
        self.log, self.front_log = work / "validator.log", work / "front.log"
        self.environment = dict(os.environ, RUST_LOG="solana=info,agave=info")
        self.process, self.number = None, 0
        self.preload = []
        if int(re.search(r"\d+|$", run("sh", "-c", "ulimit -Hn").stdout)[0] or 10**6) < 10**6:
            library = work / "openfiles.so"
            run("cc", "-shared", "-fPIC", "-o", library, HERE / "openfiles.c", check=True)
            self.preload = ["env", f"LD_PRELOAD={library}"]

    def make_ledger(self, accounts):
        """Genesis and keys, by solana-test-validator, with some accounts that are worth unpacking."""
        process = subprocess.Popen(
            [*self.preload, self.programs["solana-test-validator"], "--ledger", self.ledger, *LOCAL,
             "--faucet-port", str(PORT + 49), "--account-dir", accounts, "--quiet"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not rpc(RPC, "getSlot"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("solana-test-validator made no ledger")
            time.sleep(0.2)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # Slot 0 is in rocksdb, and nowhere else. agave-validator makes the rest anew.
        for name in ["accounts", "snapshots"]:
            shutil.rmtree(self.ledger / name, ignore_errors=True)
        for path in [*self.ledger.glob("*snapshot-*"), *self.ledger.glob("tower-*"),
                     *self.ledger.glob("validator*.log")]:
            path.unlink()

    def own(self):
        """Digests of what must never change: genesis and keys."""
        names = [*self.ledger.glob("genesis*"), *self.ledger.glob("*-keypair.json")]
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in names}

    def newest(self):
        """The slot of the newest pair of archives, and its names."""
        names = [path.name for path in self.ledger.iterdir()]
        full = max((int(m[1]), m[0]) for m in map(FULL.match, names) if m) \
            if any(map(FULL.match, names)) else (0, None)
        parts = [(int(m[2]), m[0]) for m in map(INCREMENTAL.match, names) if m and int(m[1]) == full[0]]
        slot, name = max(parts, default=(full[0], None))
        return slot, [name for name in (full[1], name) if name]

    def state(self):
        """The slot of the newest loadable state that lies in place; 0 without one."""
        marks = (self.ledger / "snapshots").glob("*/fastboot_version")
        return max((int(p.parent.name) for p in marks if p.parent.name.isdigit()), default=0)

    def command(self, front):
        ledger = self.ledger
        vote = ledger / "vote-account-keypair.json"
        command = [
            *self.preload, self.programs["agave-validator"], "--ledger", ledger,
            "--identity", ledger / "validator-keypair.json", "--vote-account", vote,
            "--authorized-voter", vote, *LOCAL, "--full-rpc-api",
            "--full-snapshot-interval-slots", "200", "--snapshot-interval-slots", "40",
            "--no-poh-speed-test", "--no-os-network-limits-test", "--allow-private-addr",
            "--no-wait-for-vote-to-start-leader", "--no-xdp",
            # Its archives are written at once, however busy the machine is.
            "--snapshot-packager-niceness-adjustment", "0",
            "--max-genesis-archive-unpacked-size", str(1 << 30), "--log", self.log]
        unsnap = [self.programs["validator"], "--crash-window", "15s", "--min-free", "300MiB",
                  "--no-progress", "--color", "never", "--"]
        return [str(word) for word in (unsnap if front else []) + command]

    def start(self, front):
        self.number += 1
        self.log.with_suffix(".log.1").unlink(missing_ok=True)
        out = self.front_log.open("w")
        self.process = subprocess.Popen(self.command(front), stdout=out, stderr=out,
                                        env=self.environment)

    def keep_logs(self):
        logs = [(self.log.with_suffix(".log.1"), "rotated"), (self.log, "validator"),
                (self.front_log, "front")]
        for log, name in logs:
            if log.exists():
                log.replace(self.work / "logs" / f"{self.number:04}.{name}.log")

    def booted_from(self):
        """What the log says it has loaded: a state or archives, and the slot."""
        text = self.read_log()
        found = STATE.search(text)
        if found:
            return "state", int(found[1])
        found = ARCHIVES.search(text)
        if found:
            match = INCREMENTAL.search(found[2] or "") or FULL.search(found[1])
            return "archives", int(match[match.re.groups])
        return "genesis", 0

    def read_log(self):
        logs = [self.log.with_suffix(".log.1"), self.log]
        return "".join(log.read_text(errors="replace") for log in logs if log.exists())

    def still_in_front(self):
        """Whether the process is still unsnap's front end."""
        try:
            return os.readlink(f"/proc/{self.process.pid}/exe") == str(self.programs["validator"])
        except OSError:
            return False

    def exit(self):
        """`agave-validator exit`, by which it leaves a state of its own."""
        run(*self.preload, self.programs["agave-validator"], "--ledger", self.ledger, "exit",
            "--force", "--no-wait-for-exit", timeout=60)

    def kill(self, number, patience=90):
        self.process.send_signal(number)
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
