"""Damage to the disk of a node that does not run (docs/store.md)."""

import os
import random
import struct
from collections.abc import Iterable
from pathlib import Path

UNIT = 4096

# Where a label's first extent stands in it.
EXTENT = 52

# How many units of a disk's blocks are changed.
BLOCKS = 10


def of_log(disk: Path, _: random.Random) -> None:
    """The first record of both halves of its log: the store cannot be mounted."""
    start, log = extent(disk)
    flip(disk, (start + 20, start + log + 20))


def of_blocks(disk: Path, dice: random.Random) -> None:
    """Some units of what was put."""
    start, log = extent(disk)
    units = list(written(disk, start + 2 * log))
    changed = dice.sample(units, min(BLOCKS, len(units)))
    flip(disk, (unit + dice.randrange(UNIT) for unit in changed))


def of_all(disk: Path, _: random.Random) -> None:
    """It is a new one."""
    length = disk.stat().st_size
    os.truncate(disk, 0)
    os.truncate(disk, length)


def extent(disk: Path) -> tuple[int, int]:
    """Where the disk's store begins, and the length of half of its log, as its label says."""
    with disk.open("rb") as file:
        copies = [file.read(UNIT) for _ in range(2)]
    label = max(copies, key=lambda copy: struct.unpack_from("<Q", copy, 16))
    start, _, log = struct.unpack_from("<QQQ", label, EXTENT)
    return start, log


def written(disk: Path, start: int) -> Iterable[int]:
    """Where units begin that have been written."""
    file = os.open(disk, os.O_RDONLY)
    try:
        while True:
            start = os.lseek(file, start, os.SEEK_DATA) // UNIT * UNIT
            end = os.lseek(file, start, os.SEEK_HOLE)
            yield from range(start, end, UNIT)
            start = end
    except OSError:
        return
    finally:
        os.close(file)


def flip(disk: Path, places: Iterable[int]) -> None:
    with disk.open("r+b") as file:
        for at in places:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))
