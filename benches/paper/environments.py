"""The environments of the experiment. All are up from its beginning to its end, and each says of a
run how long records took from mappers to reducers."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness import tuning
from harness.data import Job
from harness.hadoop import HadoopYarn
from harness.nileos import NileOs
from harness.peer import Peer, Place
from harness.processes import CommandFailed, Finished
from harness.programs import Reference
from paper import history

TUNING = Path(__file__).with_name("tuning.toml")

# How long Hadoop may take to write its history, and to end what has managed a job.
LIMIT_SECONDS = 60.0

# Where it writes them.
DONE = "/staging/history/done_intermediate"


@dataclass(frozen=True)
class Moved:
    """How records came from mappers to reducers: the seconds from the last map task's end until all
    output was written, and, where a system tells it apart, the shuffle alone."""

    reducing_seconds: float
    shuffle_bytes: int | None = None
    shuffle_seconds: float | None = None


class Environment(Protocol):
    """What an environment is besides a contestant."""

    def moved(self, finished: Finished) -> Moved:
        """What the run that has just finished says of it."""

    def turn(self) -> Any:
        """Has its turn, as a context: what it does outside of it disturbs nobody."""


class Always:
    """What does next to nothing between its turns."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        yield


class OnNileOs(Always, NileOs):
    def output(self, job: Job) -> Sequence[Path]:
        # What was fetched for the last check of this size is fetched anew.
        self.made(job).unlink(missing_ok=True)
        return super().output(job)

    def moved(self, finished: Finished) -> Moved:
        return Moved(phase(finished, "reducing"))


class OnLinux(Always, Reference):
    def moved(self, finished: Finished) -> Moved:
        return Moved(phase(finished, "sort and write"))


class OnHadoop(HadoopYarn):
    """Its daemons stand still while others have their turn."""

    def begin(self) -> None:
        super().begin()
        self.daemons = set(self.crew.members())
        self.crew.pause()

    def end(self) -> None:
        self.crew.resume()
        super().end()

    @contextmanager
    def turn(self) -> Iterator[None]:
        self.crew.resume()
        try:
            yield
            # What has managed a job stays for some seconds after it.
            self.wait_for(lambda: set(self.crew.members()) <= self.daemons, "a job's processes")
        finally:
            self.crew.pause()

    def moved(self, finished: Finished) -> Moved:
        found = re.search(r"Running job: (job_\w+)", finished.err)
        if not found:
            raise CommandFailed("TeraSort's log does not name its job")
        job = found[1]
        self.wait_for(lambda: any(self.histories(job)), "the history of a job")
        with self.files.open(next(self.histories(job))) as file:
            try:
                shuffle = history.shuffle(file.read().decode())
            except history.NoHistory as why:
                raise CommandFailed(f"Hadoop: {why}") from None
        return Moved(shuffle.reducing_seconds, shuffle.bytes, shuffle.seconds)

    def histories(self, job: str) -> Iterator[str]:
        """The history of a job, once it is whole: by the user who ran it."""
        for user in self.files.names(DONE):
            for name in self.files.names(f"{DONE}/{user}"):
                if name.startswith(job) and name.endswith(".jhist"):
                    yield f"{DONE}/{user}/{name}"

    def wait_for(self, holds: Callable[[], bool], what: str) -> None:
        patience = time.monotonic() + LIMIT_SECONDS
        while not holds():
            if time.monotonic() > patience:
                raise CommandFailed(f"Hadoop: {what}: nothing for {LIMIT_SECONDS:.0f} s")
            time.sleep(0.1)


def phase(finished: Finished, name: str) -> float:
    """The seconds of a phase, as the program's line of figures has it."""
    phases = json.loads(finished.out.splitlines()[-1])["phases"]
    for one in phases:
        if one["name"] == name:
            return float(one["seconds"])
    raise CommandFailed(f"the program names no phase {name}, only {[it['name'] for it in phases]}")


def settings(mappers: int, reducers: int, job: Job) -> dict[str, Any]:
    """The tuning of all contestants for one run."""
    words: Mapping[str, str] = tuning.words() | {
        "{mappers}": str(mappers),
        "{mappers+1}": str(mappers + 1),
        "{reducers}": str(reducers),
        "{split}": str(-(-job.bytes // mappers)),
    }
    usual = tuning.read(tuning.FILE.read_text(), words)
    return tuning.merged(usual, tuning.read(TUNING.read_text(), words))


class Contestant:
    """An environment under the name that the analysis has for it."""

    def __init__(self, name: str, title: str, peer: Any, hindered: float = 0.0) -> None:
        self.name = name
        self.title = title
        self.peer = peer
        self.hindered = hindered
        self.not_run: str | None = None
        self.failed: str | None = None

    @property
    def takes_part(self) -> bool:
        return self.not_run is None and self.failed is None

    def prepare(self, mappers: int, reducers: int, job: Job) -> None:
        """What comes next is a run with these levels."""
        self.peer.tuning = settings(mappers, reducers, job)[self.peer.name]
        if isinstance(self.peer, NileOs):
            self.peer.hindered = self.hindered


def contestants(place: Place, hadoop: bool) -> list[Contestant]:
    """NileOS, the same on Linux, and Hadoop."""
    kinds: list[tuple[str, type[Peer]]] = [("nileos", OnNileOs), ("linux", OnLinux)]
    if hadoop:
        kinds.append(("hadoop", OnHadoop))
    return [Contestant(name, place.tuning[kind.name]["title"], kind(place)) for name, kind in kinds]


def control(place: Place, hindered: float) -> list[Contestant]:
    """NileOS three times: as it is, once more, and with workers that stand still for a while in
    every sort."""
    peer = OnNileOs(place)
    return [
        Contestant("nileos", "NileOS", peer),
        Contestant("nileos-again", "NileOS, once more", peer),
        Contestant("nileos-hindered", "NileOS, hindered", peer, hindered),
    ]


def peers(contestants: Sequence[Contestant]) -> list[Any]:
    """Who has to be up, each once."""
    return list({id(one.peer): one.peer for one in contestants if one.takes_part}.values())
