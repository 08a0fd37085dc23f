#!/usr/bin/env python3
"""Prepares a directory that an Agave validator fastboots from, the slow and simple way.

It is the independent oracle for what `ledger-tool` prepares: nothing here is shared with it, the
tar is read by Python's tarfile, and zstd and lz4 are the command-line tools. It can be run or
imported (`prepare()`).

What is written, with S the slot of the newest archive of the pair:

    SNAPSHOTS/snapshots/S/S                  bank file of the newest archive, as it is
    SNAPSHOTS/snapshots/S/status_cache       its snapshots/status_cache, as it is
    SNAPSHOTS/snapshots/S/version            its version, as it is
    SNAPSHOTS/snapshots/S/storages_list      every storage of both archives
    SNAPSHOTS/snapshots/S/obsolete_accounts  an empty map: an archive never carries obsolete accounts
    SNAPSHOTS/snapshots/S/fastboot_version   last, because it is what makes the rest loadable
    ACCOUNTS/run/SLOT.ID                     the storages, dealt out to the accounts paths in turn
    ACCOUNTS/snapshot/                       empty; Agave up to 4.2 empties ACCOUNTS if it is missing

Ids are numbered from 0 (or --first-id) in the order of the archives, the full one first. The list
is in the same order. All integers are little-endian.
"""

import argparse
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile

# storages_list: a count (u64), then one of these for each storage.
LIST_ENTRY = {
    3: lambda slot, storage_id: struct.pack("<QI", slot, storage_id),
    # From 5 on an entry is an enum, whose variant 0 is an append vec: tag, id, slot. This is by the
    # source of 4.5.0-alpha.4 and has not been loaded: 4.2.2 refuses it.
    5: lambda slot, storage_id: struct.pack("<IIQ", 0, storage_id, slot),
}

DECOMPRESS = {".zst": ["zstd", "-dcq"], ".lz4": ["lz4", "-dcq"], ".tar": ["cat"]}

FULL = re.compile(r"snapshot-(\d+)-([1-9A-HJ-NP-Za-km-z]+)\.tar(\.zst|\.lz4)?")
INCREMENTAL = re.compile(r"incremental-snapshot-(\d+)-(\d+)-([1-9A-HJ-NP-Za-km-z]+)\.tar(\.zst|\.lz4)?")
STORAGE = re.compile(r"accounts/(\d+)\.(\d+)")


class Unfit(Exception):
    """The archives or the destination are not what can be prepared from or into."""


def slots(full, incremental):
    """The slots in the archives' names, after a check that they are a pair."""
    matched = FULL.fullmatch(full.name)
    if not matched:
        raise Unfit(f"{full.name}: not the name of a full archive")
    base = int(matched[1])
    if incremental is None:
        return base, base
    matched = INCREMENTAL.fullmatch(incremental.name)
    if not matched:
        raise Unfit(f"{incremental.name}: not the name of an incremental archive")
    if int(matched[1]) != base:
        raise Unfit(f"{incremental.name}: its base is not slot {base}")
    return base, int(matched[2])


def members(archive):
    """Yields (name, file) of each regular file in the archive, in its order."""
    command = DECOMPRESS[archive.suffix] + [str(archive)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
            for member in tar:
                if member.isreg():
                    yield member.name, tar.extractfile(member)
        # tarfile stops at the end mark; the decompressor must see its own end to report errors.
        while process.stdout.read(1 << 16):
            pass
    if process.returncode != 0:
        raise Unfit(f"{archive}: {command[0]} ended with {process.returncode}")


def store(source, path):
    with open(path, "xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)


def storages_list(storages, version=3):
    """The bytes of storages_list for a list of (slot, id)."""
    entry = LIST_ENTRY[version]
    return struct.pack("<Q", len(storages)) + b"".join(entry(*storage) for storage in storages)


def prepare(full, incremental, snapshots, accounts, version=3, first_id=0):
    """Prepares; returns the slot and the list of (slot, id, index into accounts, bytes)."""
    base, slot = slots(full, incremental)
    run_dirs = [path / "run" for path in accounts]
    bank_dir = snapshots / "snapshots" / str(slot)
    if bank_dir.exists():
        raise Unfit(f"{bank_dir}: already there")
    for run in run_dirs:
        run.mkdir(parents=True, exist_ok=True)
        (run.parent / "snapshot").mkdir(exist_ok=True)
        if any(run.iterdir()):
            raise Unfit(f"{run}: not empty")
    bank_dir.mkdir(parents=True)

    storages = []
    seen = set()
    for archive, archive_slot in [(full, base), (incremental, slot)]:
        if archive is None:
            continue
        newest = archive_slot == slot
        wanted = {
            "version": bank_dir / "version",
            "snapshots/status_cache": bank_dir / "status_cache",
            f"snapshots/{archive_slot}/{archive_slot}": bank_dir / str(slot),
        }
        found = set()
        for name, content in members(archive):
            storage = STORAGE.fullmatch(name)
            if storage:
                storage_slot = int(storage[1])
                if storage_slot in seen:
                    raise Unfit(f"{archive}: a second storage for slot {storage_slot}")
                seen.add(storage_slot)
                storage_id = first_id + len(storages)
                target = len(storages) % len(run_dirs)
                path = run_dirs[target] / f"{storage_slot}.{storage_id}"
                store(content, path)
                storages.append((storage_slot, storage_id, target, path.stat().st_size))
            elif name in wanted:
                found.add(name)
                if newest:
                    store(content, wanted[name])
            else:
                raise Unfit(f"{archive}: {name}: not expected")
        if found != set(wanted):
            raise Unfit(f"{archive}: without {sorted(set(wanted) - found)}")

    listed = storages_list([(storage[0], storage[1]) for storage in storages], version)
    (bank_dir / "storages_list").write_bytes(listed)
    (bank_dir / "obsolete_accounts").write_bytes(struct.pack("<Q", 0))
    (bank_dir / "fastboot_version").write_text(f"{version}.0.0")
    return slot, storages


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", type=pathlib.Path, required=True)
    parser.add_argument("--incremental", type=pathlib.Path)
    parser.add_argument("--snapshots", type=pathlib.Path, required=True,
                        help="the validator's --snapshots; its snapshots/ is written to")
    parser.add_argument("--accounts", required=True,
                        help="the validator's --accounts: one path, or several with commas")
    parser.add_argument("--format", type=int, choices=sorted(LIST_ENTRY), default=3,
                        help="fastboot version: 3 loads in Agave 4.2 and later [default: 3]")
    parser.add_argument("--first-id", type=int, default=0)
    args = parser.parse_args()
    accounts = [pathlib.Path(path) for path in args.accounts.split(",")]
    try:
        slot, storages = prepare(args.full, args.incremental, args.snapshots, accounts,
                                 args.format, args.first_id)
    except (Unfit, OSError, tarfile.TarError) as error:
        print(f"prepare.py: {error}", file=sys.stderr)
        return 1
    print(json.dumps({
        "event": "prepared",
        "slot": slot,
        "storages": len(storages),
        "bytes": sum(storage[3] for storage in storages),
        "accounts_paths": len(accounts),
    }))
    return 0


if __name__ == "__main__":
    sys.exit(main())
