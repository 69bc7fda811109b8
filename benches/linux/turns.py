"""The measuring: round by round every guest has its turn, in an order that rotates, alone on the
machine."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.install import say
from harness.order import rotated
from harness.processes import CommandFailed
from linux.guests import Guest, StoodStill, Task, Turn, WrongOutput


@dataclass
class Entry:
    """A guest and its turns. One that failed says why."""

    guest: Guest
    turns: list[Turn] = field(default_factory=list)
    # How often its machine has stood still, and was started once more.
    stood_still: int = 0
    failed: str | None = None


def run(entries: Sequence[Entry], task: Task, rounds: int) -> None:
    """Has all take their turns; who fails is out."""
    for number in range(rounds):
        for entry in rotated(entries, number):
            if entry.failed is not None:
                continue
            name = f"round {number + 1} of {rounds}: {entry.guest.name}"
            try:
                turn = take(entry, name, task)
                check(entries, turn)
            except (CommandFailed, WrongOutput) as why:
                entry.failed = str(why)
                say(f"{name} FAILED: {why}")
            else:
                entry.turns.append(turn)
                say(f"{name} {turn.sort.seconds:.2f} s")


def take(entry: Entry, name: str, task: Task) -> Turn:
    """A guest's turn. One whose machine stands still has another, once: Linux does so in one boot of
    hundreds under QEMU's emulation."""
    try:
        return alone(entry.guest, task)
    except StoodStill as why:
        entry.stood_still += 1
        say(f"{name} is started once more: {why}")
        return alone(entry.guest, task)


def alone(guest: Guest, task: Task) -> Turn:
    """A guest's turn, of which nothing is left."""
    guest.crew.folder.mkdir(parents=True)
    # What others have left to be written is not written meanwhile.
    os.sync()
    try:
        return guest.turn(task)
    finally:
        guest.end()
        shutil.rmtree(guest.crew.folder, ignore_errors=True)


def check(entries: Sequence[Entry], turn: Turn) -> None:
    """Refuses an output that has not the records of all others."""
    for other in (other for entry in entries for other in entry.turns):
        mine, theirs = turn.sort, other.sort
        if (mine.records, mine.checksum) != (theirs.records, theirs.checksum):
            raise WrongOutput(
                f"{mine.records} records with checksum {mine.checksum}, where another guest has "
                f"{theirs.records} with {theirs.checksum}"
            )
