"""The measuring: round by round every contestant has its turn, in an order that rotates.

A turn is the same for all. The contestant is brought up, sorts once while its memory is watched,
sorts 1,000 records to show what starting a job takes, sorts once more for the time that counts, and
goes down again: nobody else is on the machine meanwhile. What it made is checked."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.data import Data, Job
from harness.install import NotInstalled, say
from harness.order import rotated
from harness.peer import FAILURES, Peer
from harness.processes import Memory

# How long one job may take.
LIMIT_SECONDS = 3600


@dataclass(frozen=True)
class Run:
    """One job: what it took by the contestant's own clock, and its command from start to end."""

    seconds: float
    command_seconds: float


@dataclass(frozen=True)
class Turn:
    """What was measured in one turn. The first sort counts for the memory alone: what it took is
    what it takes where nobody has sorted before, with somebody looking on."""

    first: Run
    sort: Run
    start_up: Run
    peak_memory_bytes: int


@dataclass
class Entry:
    """A contestant and its turns. One that failed or could not be installed says why."""

    peer: Peer
    turns: list[Turn] = field(default_factory=list)
    not_run: str | None = None
    failed: str | None = None

    @property
    def takes_part(self) -> bool:
        return self.not_run is None and self.failed is None


def install(entries: Sequence[Entry]) -> None:
    """Brings what contestants need."""
    for entry in entries:
        try:
            entry.peer.install()
        except NotInstalled as why:
            entry.not_run = str(why)
            say(f"{entry.peer.name} is not run: {why}")


def run(entries: Sequence[Entry], data: Data, rounds: int) -> None:
    """Has all take their turns; who fails is out."""
    for number in range(rounds):
        for entry in rotated(entries, number):
            if not entry.takes_part:
                continue
            name = f"round {number + 1} of {rounds}: {entry.peer.name}"
            try:
                turn = take_turn(entry.peer, data)
            except FAILURES as why:
                entry.failed = str(why)
                say(f"{name} FAILED: {why}")
            else:
                entry.turns.append(turn)
                mebi = turn.peak_memory_bytes / 2**20
                say(f"{name} {turn.sort.seconds:.2f} s, {mebi:.0f} MiB")


def take_turn(peer: Peer, data: Data) -> Turn:
    whole, tiny = data.jobs
    peer.crew.folder.mkdir(parents=True)
    try:
        peer.begin()
        # Memory is for its own input and output, and not for those of others.
        data.forget(None if peer.copies else peer.form)
        memory = Memory(peer.crew)
        memory.start()
        try:
            first = sort(peer, whole)
        finally:
            most = memory.end()
        start_up, again = (checked(peer, data, job) for job in (tiny, whole))
        return Turn(first, again, start_up, most)
    finally:
        peer.end()
        shutil.rmtree(peer.crew.folder, ignore_errors=True)


def sort(peer: Peer, job: Job) -> Run:
    """Does a job."""
    peer.clear(job)
    # What others have left to be written is not written during this job.
    os.sync()
    finished = peer.crew.run(peer.sort(job), LIMIT_SECONDS)
    return Run(peer.own_seconds(finished), finished.seconds)


def checked(peer: Peer, data: Data, job: Job) -> Run:
    """Does a job and checks what came of it."""
    ran = sort(peer, job)
    data.check(peer.output(job), peer.form, job)
    return ran
