"""The measuring: round by round every contestant has its turn, in an order that rotates, alone on
the machine."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.install import say
from harness.order import rotated
from harness.processes import CommandFailed
from stream.contestants import Contestant
from stream.turn import Known, Turn, WrongRanks, take


@dataclass
class Entry:
    """A contestant and its turns. One that failed says why."""

    contestant: Contestant
    turns: list[Turn] = field(default_factory=list)
    failed: str | None = None


def run(entries: Sequence[Entry], edges: Known, rate: int, rounds: int) -> None:
    """Has all take their turns; who fails is out."""
    for number in range(rounds):
        for entry in rotated(entries, number):
            if entry.failed is not None:
                continue
            name = f"round {number + 1} of {rounds}: {entry.contestant.name}"
            try:
                turn = alone(entry.contestant, edges, rate)
            except (CommandFailed, WrongRanks) as why:
                entry.failed = str(why)
                say(f"{name} FAILED: {why}")
            else:
                entry.turns.append(turn)
                say(f"{name}: at most {turn.staleness[1] * 1e3:.1f} ms stale for 99% of the time")


def alone(contestant: Contestant, edges: Known, rate: int) -> Turn:
    """A contestant's turn, of which nothing is left."""
    contestant.crew.folder.mkdir(parents=True)
    try:
        return take(contestant, edges, rate)
    finally:
        try:
            contestant.end()
        finally:
            shutil.rmtree(contestant.crew.folder, ignore_errors=True)
