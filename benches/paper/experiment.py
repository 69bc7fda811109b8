"""The measuring: block by block, every cell is run once. All environments are up meanwhile, and
each has sorted once before a run counts."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from harness.data import Data
from harness.install import NotInstalled, say
from harness.peer import FAILURES
from paper.design import Cell
from paper.environments import Contestant, Moved, peers

# How long one run may take.
LIMIT_SECONDS = 1800


@dataclass(frozen=True)
class Observation:
    """One run: its levels, its place in the order, and what was measured."""

    environment: str
    size: str
    bytes: int
    reducers: int
    block: int
    place: int
    # The job alone, by the environment's own clock, and its command from start to end.
    seconds: float
    command_seconds: float
    moved: Moved


class Experiment:
    """What runs cells; who fails is out."""

    def __init__(self, contestants: Sequence[Contestant], data: Data, mappers: int) -> None:
        self.contestants = {one.name: one for one in contestants}
        self.data = data
        self.mappers = mappers
        self.observations: list[Observation] = []

    def install(self) -> None:
        """Brings what environments need; without it they are not run."""
        for one in self.contestants.values():
            try:
                one.peer.install()
            except NotInstalled as why:
                one.not_run = str(why)
                say(f"{one.title} is not run: {why}")

    def run(self, blocks: Sequence[Sequence[Cell]]) -> None:
        """Does all runs; what was started for them has ended then."""
        whole = self.data.jobs[0]
        with ExitStack() as ends:
            for peer in peers(list(self.contestants.values())):
                peer.crew.folder.mkdir(parents=True, exist_ok=True)
                ends.callback(peer.end)
                who = [one for one in self.contestants.values() if one.peer is peer]
                try:
                    say(f"starting {who[0].title}")
                    who[0].prepare(self.mappers, self.mappers, whole)
                    peer.begin()
                    self.sort(who[0], Cell(who[0].name, whole, self.mappers))
                except FAILURES as why:
                    self.out(who, why)
            total = sum(map(len, blocks))
            for number, block in enumerate(blocks):
                for cell in block:
                    self.take(cell, number, total)

    def take(self, cell: Cell, block: int, total: int) -> None:
        """Does a run that counts."""
        one = self.contestants[cell.environment]
        if not one.takes_part:
            return
        try:
            observed = self.observe(one, cell, block)
        except FAILURES as why:
            self.out([one], why)
            return
        self.observations.append(observed)
        levels = f"{cell.job.name}, reducers {cell.reducers} of {self.mappers}"
        done = len(self.observations)
        say(f"run {done} of {total}: {one.title}, {levels}: {observed.seconds:.3f} s")

    def observe(self, one: Contestant, cell: Cell, block: int) -> Observation:
        place = len(self.observations)
        seconds, command_seconds, moved = self.sort(one, cell)
        job = cell.job
        return Observation(
            one.name,
            job.name,
            job.bytes,
            cell.reducers,
            block,
            place,
            seconds,
            command_seconds,
            moved,
        )

    def sort(self, one: Contestant, cell: Cell) -> tuple[float, float, Moved]:
        """Sorts, and checks what came of it."""
        peer, job = one.peer, cell.job
        one.prepare(self.mappers, cell.reducers, job)
        with peer.turn():
            peer.clear(job)
            # What others have left to be written is not written during this run.
            os.sync()
            finished = peer.crew.run(peer.sort(job), LIMIT_SECONDS)
            moved = peer.moved(finished)
            self.data.check(peer.output(job), peer.form, job)
        return peer.own_seconds(finished), finished.seconds, moved

    def out(self, who: Sequence[Contestant], why: Exception) -> None:
        for one in who:
            one.failed = str(why)
            say(f"{one.title} FAILED: {why}")
