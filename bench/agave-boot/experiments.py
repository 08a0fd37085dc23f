#!/usr/bin/env python3
"""What Agave's code does with a prepared directory that is not quite as it should be.

Each experiment prepares a directory (prepare.py) from the pair in tests/data/agave-tiny, changes
something, lets `agave-boot directory` start from it in place, and holds what came out to what
docs/agave-boot.md says: what it started from, its error, and what was left behind. Ends with 0 if
all was as documented. Experiments that need root or another user say so and are skipped.

    cargo build && ./experiments.py [FILTER]
"""

import functools
import hashlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

import prepare

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE / "../../tests/data/agave-tiny"
FULL = next(DATA.glob("snapshot-*"))
INCREMENTAL = next(DATA.glob("incremental-snapshot-*"))
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
PROGRAM = TARGET / "debug/agave-boot"

EXPERIMENTS = []


class Skipped(Exception):
    """Cannot be done here; the message says why."""


def experiment(function):
    EXPERIMENTS.append(function)
    return function


class Place:
    """A prepared directory of its own, and starts from it."""

    def __init__(self, root):
        self.root = root
        self.ledger = root / "ledger"
        self.accounts = [root / "accounts"]
        self.archives = DATA
        self.as_user = []
        self.program = PROGRAM

    def prepare(self, incremental=INCREMENTAL, **options):
        slot, storages = prepare.prepare(FULL, incremental, self.ledger, self.accounts, **options)
        self.bank_dir = self.ledger / "snapshots" / str(slot)
        self.storages = [
            self.accounts[target] / "run" / f"{storage_slot}.{storage_id}"
            for storage_slot, storage_id, target, _ in storages
        ]
        # Not the largest or the newest, just one.
        self.storage = self.storages[7]
        return self

    def command(self, *options):
        genesis = self.root / "genesis.bin"
        if not genesis.exists():
            shutil.copyfile(DATA / "genesis.bin", genesis)
        accounts = ",".join(map(str, self.accounts))
        return [
            *self.as_user, str(self.program), "directory", "--in-place", "--genesis", str(genesis),
            "--snapshots", str(self.ledger), "--accounts", accounts,
            "--archives", str(self.archives),
            # A killed start leaves its scratch directory, and then this one's end deletes it.
            "--scratch", str(self.root), *options,
        ]

    def start(self):
        """Starts; returns what it started from, and the bank or the error."""
        done = subprocess.run(self.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=300, check=False)
        return self.outcome(done.stdout, done.stderr)

    @staticmethod
    def outcome(stdout, stderr):
        lines = [json.loads(line) for line in stdout.splitlines()]
        source = next((line["source"] for line in lines if line["event"] == "chosen"), None)
        bank = next((line for line in lines if line["event"] == "bank"), None)
        error = next((line["error"] for line in lines if line["event"] == "failed"), None)
        if not lines:
            error = stderr[-500:]
        return source, bank, error

    def left(self):
        """How many of the storages are still there."""
        return sum(os.path.lexists(storage) for storage in self.storages)


def expect(what, seen, wanted):
    if seen != wanted:
        raise AssertionError(f"{what}: {seen!r}, not {wanted!r}")


@functools.cache
def reference(incremental):
    """The bank that the archives give: of the pair, or of the full one alone."""
    with tempfile.TemporaryDirectory(prefix="agave-experiment-") as directory:
        archives = pathlib.Path(directory)
        for archive in [FULL, INCREMENTAL] if incremental else [FULL]:
            (archives / archive.name).symlink_to(archive)
        command = [str(PROGRAM), "archives", "--genesis", str(DATA / "genesis.bin"),
                   "--archives", directory]
        line = subprocess.run(command, stdout=subprocess.PIPE, timeout=300, check=True).stdout
    facts = json.loads(line)
    del facts["source"]
    return facts


def expect_bank(place, slot=47, but=()):
    source, bank, error = place.start()
    expect("error", error, None)
    expect("source", source, f"directory of slot {slot}")
    expect("slot", bank["slot"], slot)
    for fact, value in reference(incremental=slot == 47).items():
        if fact not in but:
            expect(fact, bank[fact], value)
    return f"loaded; {place.left()} of {len(place.storages)} storages left"


def expect_error(place, part, left=None):
    _source, bank, error = place.start()
    expect("bank", bank, None)
    if error is None or part not in error:
        raise AssertionError(f"error {error!r} is without {part!r}")
    if left is not None:
        expect("storages left", place.left(), left)
    shown = error.replace(str(place.root), "DIR")
    return f"{shown}; {place.left()} of {len(place.storages)} storages left"


def expect_not_chosen(place, wanted):
    source, bank, error = place.start()
    expect("error", error, None)
    expect("bank", bank, None)
    expect("source", source, wanted)
    there = "there" if place.bank_dir.exists() else "deleted"
    return f"{source}; directory {there}; {place.left()} of {len(place.storages)} storages left"


# ---- what loads ----------------------------------------------------------------------------------


@experiment
def as_prepared(place):
    done = expect_bank(place.prepare())
    expect("storages left", place.left(), 0)
    kept = {"47", "status_cache", "version", "storages_list", "obsolete_accounts",
            "fastboot_version"}
    expect("bank directory", {path.name for path in place.bank_dir.iterdir()}, kept)
    return done


@experiment
def three_accounts_paths(place):
    place.accounts = [place.root / name for name in ("a", "b", "c")]
    return expect_bank(place.prepare())


@experiment
def storages_in_other_accounts_paths_than_prepared(place):
    place.accounts = [place.root / name for name in ("a", "b")]
    place.prepare()
    for storage in list((place.root / "a/run").iterdir()):
        storage.rename(place.root / "b/run" / storage.name)
    return expect_bank(place)


@experiment
def full_archive_alone(place):
    place.archives = place.root / "archives"
    place.archives.mkdir()
    (place.archives / FULL.name).symlink_to(FULL)
    return expect_bank(place.prepare(incremental=None), slot=39)


@experiment
def version_with_newline(place):
    place.prepare()
    (place.bank_dir / "version").write_text("1.2.0\n")
    return expect_bank(place)


@experiment
def fastboot_version_with_newline(place):
    place.prepare()
    (place.bank_dir / "fastboot_version").write_text("3.0.0\n")
    return expect_bank(place)


@experiment
def fastboot_3_1_0(place):
    place.prepare()
    (place.bank_dir / "fastboot_version").write_text("3.1.0")
    return expect_bank(place)


@experiment
def with_startup_hints(place):
    # Agave writes this file from 4.4 on; 4.2.2 does not know it.
    place.prepare()
    (place.bank_dir / "startup_hints").write_bytes(struct.pack("<QIQ", 1, 0, 100))
    return expect_bank(place)


@experiment
def with_foreign_files_in_the_bank_directory(place):
    place.prepare()
    (place.bank_dir / "unsnap.json").write_text("{}")
    done = expect_bank(place)
    expect("foreign file is there", (place.bank_dir / "unsnap.json").exists(), True)
    return done


@experiment
def fastboot_5_0_0(place):
    return expect_not_chosen(place.prepare(version=5), "archives: no loadable directory")


# ---- storages ------------------------------------------------------------------------------------


@experiment
def storage_missing(place):
    place.prepare()
    place.storage.unlink()
    return expect_error(place, "capitalization mismatch", left=0)


@experiment
def all_storages_missing(place):
    place.prepare()
    for storage in place.storages:
        storage.unlink()
    return expect_error(place, "At least one storage entry must exist")


@experiment
def storage_not_listed(place):
    place.prepare()
    extra = place.storage.with_name("46.999")
    shutil.copyfile(place.storage, extra)
    done = expect_bank(place)
    expect("extra is there", extra.exists(), False)
    return done + "; the extra file was deleted"


@experiment
def storage_of_a_later_slot_not_listed(place):
    place.prepare()
    extra = place.storage.with_name("48.48")
    extra.write_bytes(b"")
    done = expect_bank(place)
    expect("extra is there", extra.exists(), False)
    return done + "; the extra file was deleted"


@experiment
def directory_with_a_storage_name(place):
    place.prepare()
    place.storage.with_name("48.48").mkdir()
    return expect_error(place, "Is a directory")


@experiment
def same_storage_in_two_accounts_paths(place):
    place.accounts = [place.root / name for name in ("a", "b")]
    place.prepare()
    other = "b" if place.storage.parent.parent.name == "a" else "a"
    os.link(place.storage, place.root / other / "run" / place.storage.name)
    return expect_error(place, "there must be exactly one storage per slot")


@experiment
def foreign_names_in_run(place):
    place.prepare()
    run = place.storage.parent
    names = [".unsnap", "README", "47.47.tmp", "47", "x.y", "47.47.unsnap"]
    for name in names:
        (run / name).write_text("foreign")
    (run / "shadow").mkdir()
    os.link(place.storage, run / "shadow" / place.storage.name)
    done = expect_bank(place)
    for name in names + ["shadow"]:
        expect(f"{name} is there", (run / name).exists(), True)
    expect("file in a directory", (run / "shadow" / place.storage.name).exists(), True)
    return done + "; all foreign names stayed"


@experiment
def foreign_dangling_link_in_run(place):
    place.prepare()
    (place.storage.parent / "link").symlink_to("nowhere")
    return expect_error(place, "No such file")


def resized(place, change):
    place.prepare()
    os.truncate(place.storage, change(place.storage.stat().st_size))
    return place


@experiment
def storage_cut_by_a_byte(place):
    return expect_error(resized(place, lambda size: size - 1), "capitalization mismatch", left=0)


@experiment
def storage_cut_to_half(place):
    return expect_error(resized(place, lambda size: size // 2), "capitalization mismatch", left=0)


@experiment
def storage_empty(place):
    return expect_error(resized(place, lambda size: 0), "too small file size 0")


@experiment
def storage_with_zeros_after_its_end(place):
    return expect_bank(resized(place, lambda size: size + 4096), but=["stored_bytes"])


@experiment
def storage_with_a_byte_changed(place):
    place.prepare()
    # Byte 48 is the least significant one of the first account's lamports.
    with open(place.storage, "r+b") as file:
        file.seek(48)
        byte = file.read(1)[0]
        file.seek(48)
        file.write(bytes([byte ^ 1]))
    return expect_error(place, "capitalization mismatch", left=0)


@experiment
def account_data_with_a_byte_changed(place):
    place.prepare()
    for storage in place.storages:
        content = bytearray(storage.read_bytes())
        data_len, lamports = struct.unpack_from("<Q", content, 8)[0], content[48:56]
        if data_len and any(lamports):
            content[136] ^= 1
            storage.write_bytes(content)
            return expect_error(place, "failed to verify", left=0)
    raise AssertionError("no account with data comes first")


@experiment
def ids_up_to_the_largest_allowed(place):
    return expect_bank(place.prepare(first_id=2**31 - 48))


@experiment
def ids_up_to_one_more(place):
    return expect_error(place.prepare(first_id=2**31 - 47), "larger than allowed max")


@experiment
def id_in_list_differs_from_name(place):
    place.prepare()
    place.storage.rename(place.storage.with_name(place.storage.name + "0"))
    return expect_error(place, "capitalization mismatch", left=0)


# ---- files of the bank directory -----------------------------------------------------------------


def without(name, wanted):
    def run(place):
        place.prepare()
        (place.bank_dir / name).unlink()
        return wanted(place)

    run.__name__ = f"without_{name}"
    return experiment(run)


without("fastboot_version", lambda place: expect_not_chosen(place, "archives: no loadable directory"))
without("version", lambda place: expect_not_chosen(place, "archives: no loadable directory"))
without("status_cache", lambda place: expect_not_chosen(place, "archives: no loadable directory"))
without("47", lambda place: expect_not_chosen(place, "archives: no loadable directory"))
without("obsolete_accounts", lambda place: expect_error(place, "failed to read obsolete accounts file"))
without("storages_list", lambda place: expect_error(place, "accounts_hardlinks"))


@experiment
def fastboot_version_not_a_version(place):
    place.prepare()
    (place.bank_dir / "fastboot_version").write_text("three")
    return expect_not_chosen(place, "archives: no loadable directory")


@experiment
def storages_list_cut(place):
    place.prepare()
    path = place.bank_dir / "storages_list"
    os.truncate(path, path.stat().st_size - 1)
    return expect_error(place, "Attempting to read 4 bytes", left=48)


@experiment
def storages_list_with_bytes_after_its_end(place):
    place.prepare()
    with open(place.bank_dir / "storages_list", "ab") as file:
        file.write(b"x")
    return expect_bank(place)


@experiment
def obsolete_accounts_empty_file(place):
    place.prepare()
    os.truncate(place.bank_dir / "obsolete_accounts", 0)
    return expect_error(place, "Attempting to read 8 bytes", left=48)


@experiment
def bank_file_of_the_full_archive(place):
    # What a tool would do that forgot that the incremental's bank file replaces it.
    other = Place(place.root / "other")
    other.prepare(incremental=None)
    place.prepare()
    shutil.copyfile(other.bank_dir / "39", place.bank_dir / "47")
    return expect_error(place, "capitalization mismatch")


# ---- which directory -----------------------------------------------------------------------------


@experiment
def directory_older_than_the_archives(place):
    return expect_not_chosen(place.prepare(incremental=None),
                             "archives: the archives are newer than the directory")


@experiment
def directory_newer_than_the_archives(place):
    place.archives = place.root / "archives"
    place.archives.mkdir()
    (place.archives / FULL.name).symlink_to(FULL)
    return expect_bank(place.prepare())


@experiment
def no_archives(place):
    place.archives = place.root / "archives"
    place.archives.mkdir()
    return expect_not_chosen(place.prepare(), "genesis: no full archive")


@experiment
def incremental_archive_without_its_full(place):
    place.archives = place.root / "archives"
    place.archives.mkdir()
    (place.archives / INCREMENTAL.name).symlink_to(INCREMENTAL)
    return expect_not_chosen(place.prepare(), "genesis: no full archive")


@experiment
def archives_of_zero_bytes(place):
    # Only the names are looked at.
    place.archives = place.root / "archives"
    place.archives.mkdir()
    (place.archives / FULL.name).touch()
    (place.archives / INCREMENTAL.name).touch()
    return expect_bank(place.prepare())


@experiment
def higher_directory_that_is_not_loadable(place):
    place.prepare()
    higher = place.bank_dir.with_name("48")
    shutil.copytree(place.bank_dir, higher)
    (higher / "47").rename(higher / "48")
    (higher / "fastboot_version").unlink()
    return expect_not_chosen(place, "archives: no loadable directory")


@experiment
def staging_directory_beside_it(place):
    place.prepare()
    staging = place.bank_dir.with_name(".unsnap-staging")
    staging.mkdir()
    (staging / "file").touch()
    (place.bank_dir.parent / "file").touch()
    done = expect_bank(place)
    expect("staging is there", staging.exists(), False)
    expect("file is there", (place.bank_dir.parent / "file").exists(), True)
    return done + "; the staging directory was deleted, a file beside it stayed"


# ---- paths, owners, times ------------------------------------------------------------------------


@experiment
def accounts_path_without_snapshot(place):
    place.prepare()
    (place.accounts[0] / "snapshot").rmdir()
    (place.accounts[0] / "other").touch()
    done = expect_error(place, "At least one storage entry must exist", left=0)
    expect("other file is there", (place.accounts[0] / "other").exists(), False)
    return done + "; all else in the accounts path was deleted, too"


@experiment
def accounts_path_is_a_link(place):
    place.prepare()
    real = place.root / "real"
    place.accounts[0].rename(real)
    place.accounts[0].symlink_to(real)
    return expect_bank(place)


@experiment
def run_is_a_link(place):
    place.prepare()
    real = place.root / "real"
    (place.accounts[0] / "run").rename(real)
    (place.accounts[0] / "run").symlink_to(real)
    return expect_bank(place)


@experiment
def storages_are_links(place):
    place.prepare()
    real = place.root / "real"
    real.mkdir()
    for storage in place.storages:
        storage.rename(real / storage.name)
        storage.symlink_to(real / storage.name)
    done = expect_bank(place)
    expect("files behind the links", len(list(real.iterdir())), len(place.storages))
    return done + "; the files behind the links stayed"


@experiment
def bank_directory_is_a_link(place):
    place.prepare()
    real = place.root / "real"
    place.bank_dir.rename(real)
    place.bank_dir.symlink_to(real)
    # "Complete" wants a file that is named like the directory, and takes the link's name.
    return expect_bank(place)


@experiment
def snapshots_path_is_a_link(place):
    place.prepare()
    real = place.root / "real"
    place.ledger.rename(real)
    place.ledger.symlink_to(real)
    return expect_bank(place)


@experiment
def times_of_1970_and_2100(place):
    place.prepare()
    for number, storage in enumerate(place.storages):
        time = 0 if number % 2 else 4102444800
        os.utime(storage, (time, time))
    for path in place.bank_dir.iterdir():
        os.utime(path, (0, 0))
    return expect_bank(place)


def as_nobody(place, owned):
    """Has the start made by another user, who owns what was prepared or does not."""
    if os.geteuid() != 0:
        raise Skipped("needs root to start as another user")
    if not shutil.which("setpriv"):
        raise Skipped("needs setpriv")
    place.prepare()
    place.program = place.root / "agave-boot"
    shutil.copyfile(PROGRAM, place.program)
    place.program.chmod(0o755)
    place.archives = place.root / "archives"
    shutil.copytree(DATA, place.archives)
    place.as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    place.command()  # which copies the genesis
    place.root.chmod(0o755)
    for directory, _, files in os.walk(place.root):
        os.chown(directory, 65534, 65534)
        for file in files if owned else []:
            os.chown(pathlib.Path(directory) / file, 65534, 65534)
    return place


@experiment
def owned_by_the_validator(place):
    return expect_bank(as_nobody(place, owned=True))


@experiment
def owned_by_another_but_readable(place):
    # In directories of the validator's, as a root front end that forgets to chown would leave it.
    return expect_error(as_nobody(place, owned=False), "Operation not permitted")


@experiment
def storages_owned_by_another_but_readable(place):
    as_nobody(place, owned=True)
    for storage in place.storages:
        os.chown(storage, 0, 0)
        storage.chmod(0o644)
    return expect_bank(place)


@experiment
def bank_directory_owned_by_another_but_readable(place):
    as_nobody(place, owned=True)
    for path in [place.bank_dir, *place.bank_dir.iterdir()]:
        os.chown(path, 0, 0)
    return expect_error(place, "Operation not permitted")


@experiment
def storages_read_only(place):
    as_nobody(place, owned=True)
    for storage in place.storages:
        storage.chmod(0o400)
    return expect_bank(place)


@experiment
def storage_not_readable(place):
    as_nobody(place, owned=True)
    place.storage.chmod(0)
    return expect_error(place, "Permission denied")


@experiment
def foreign_file_in_run_not_readable(place):
    as_nobody(place, owned=True)
    foreign = place.storage.with_name("foreign")
    foreign.touch(mode=0o600)
    return expect_error(place, "Permission denied")


@experiment
def run_not_writable(place):
    as_nobody(place, owned=True)
    os.chown(place.storage.parent, 0, 0)
    done = expect_bank(place)
    expect("storages left", place.left(), len(place.storages))
    return done


# ---- what is left, and repair --------------------------------------------------------------------


def killed(place, with_signal):
    """Has a start loaded and killed while it holds the bank."""
    held = subprocess.Popen(place.command("--hold"), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    try:
        lines = [held.stdout.readline(), held.stdout.readline()]
        _source, bank, error = place.outcome("".join(lines), "")
        expect("error", error, None)
        expect("slot", bank["slot"], 47)
    finally:
        held.send_signal(with_signal)
        held.wait(timeout=60)
        held.stdin.close()
        held.stdout.close()
    expect("storages left", place.left(), len(place.storages))
    return expect_bank(place)


@experiment
def killed_and_started_again(place):
    return "all storages left; then " + killed(place.prepare(), signal.SIGKILL)


@experiment
def terminated_and_started_again(place):
    return "all storages left; then " + killed(place.prepare(), signal.SIGTERM)


@experiment
def started_twice(place):
    expect_bank(place.prepare())
    return "second start: " + expect_error(place, "At least one storage entry must exist")


def digest(paths):
    return [hashlib.sha256(path.read_bytes()).digest() for path in paths]


@experiment
def started_twice_with_links_restored(place):
    place.prepare()
    shadow = place.accounts[0] / "shadow"
    shadow.mkdir()
    shadows = [shadow / storage.name for storage in place.storages]
    for storage, copy in zip(place.storages, shadows):
        os.link(storage, copy)
    before = digest(shadows)
    expect_bank(place)
    expect("storages left", place.left(), 0)
    expect("content of the shadow tree", digest(shadows), before)
    for storage, copy in zip(place.storages, shadows):
        os.link(copy, storage)
    return "first start deleted the names, not the content; second start: " + expect_bank(place)


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if not PROGRAM.exists():
        sys.exit(f"{PROGRAM} is missing: run cargo build first")
    chosen = [function for function in EXPERIMENTS if wanted in function.__name__]
    failed = skipped = 0
    for function in chosen:
        name = function.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory(prefix="agave-experiment-") as directory:
            try:
                print(f"ok       {name}: {function(Place(pathlib.Path(directory)))}", flush=True)
            except Skipped as reason:
                skipped += 1
                print(f"skipped  {name}: {reason}", flush=True)
            except AssertionError as difference:
                failed += 1
                print(f"FAILED   {name}: {difference}", flush=True)
    print(f"{len(chosen)} experiments, {failed} failed, {skipped} skipped")
    return 1 if failed else 0



if __name__ == "__main__":
    sys.exit(main())
