"""The guests that are measured: a NileOS node, and Linux in several set-ups. Each is booted for its
turn, sorts, does the fixed work quantum, and is powered off."""

import json
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.processes import Command, CommandFailed, Crew, gist

RECORD = 100

# Bytes of the index for each record, of buffers on their way, of kernel and services, and of what
# else lies on a disk: as `nile run` has it.
ENTRY = 16
ON_THE_WAY = 128 << 20
KERNEL = 256 << 20
MARGIN = 256 << 20

# How long a command may take that a node is asked to do.
LIMIT_SECONDS = 600

# How long Linux guests may take for all that they do in a turn, on a machine that does other work
# besides: to boot and to measure noise, and for each MiB that they make, sort twice, and check.
TURN_SECONDS = 60
SECONDS_PER_MEBIBYTE = 2

# Linux says how far it is from early on: nothing else tells where one stands still.
SAYS = "console=ttyS0 earlyprintk=serial panic=-1"

# What `nile guest` is told at most: who waits for it ends it before.
LONGEST_SECONDS = 3600


@dataclass(frozen=True)
class Counts:
    """What was counted while a guest worked; `None` is what nobody counts."""

    # Those of each core that works, by cause, and how many that is altogether for one core.
    interrupts: Mapping[str, list[int]]
    interrupts_per_worker: float
    # Those of them that broke into work, as the core did not sleep.
    interruptions_per_worker: float | None
    context_switches: int | None
    page_faults: int | None
    system_calls: int | None
    # Bytes that a kernel has copied between its memory and a program's.
    copied_bytes: int | None


@dataclass(frozen=True)
class Sort:
    """A sort: how long it took by the guest's own clock, and what was counted meanwhile."""

    seconds: float
    records: int
    checksum: str
    counts: Counts


@dataclass(frozen=True)
class Noise:
    """The time of each quantum in microseconds, and the interrupts that the core had meanwhile."""

    micros: list[float]
    interrupts: Mapping[str, int]


@dataclass(frozen=True)
class Switch:
    """A token between two programs of one core, in microseconds: a pass, and the switch alone,
    where that can be told."""

    passed: float
    alone: float | None


@dataclass(frozen=True)
class Turn:
    """What was measured in a guest's turn. Of several machines the sort alone is measured."""

    sort: Sort
    noise: Noise | None
    switch: Switch | None = None


@dataclass(frozen=True)
class Task:
    """What every guest does."""

    records: int
    quanta: int

    @property
    def bytes(self) -> int:
        return self.records * RECORD


@dataclass(frozen=True)
class Place:
    """Where guests run, and with what."""

    work: Path
    nile: Path
    packages: Path
    tuning: Mapping[str, Any]
    # Machines that share a sort.
    nodes: int = 1

    @property
    def cores(self) -> int:
        return int(self.tuning["machine"]["cores"])

    @property
    def workers(self) -> int:
        """Of each machine."""
        return int(self.tuning["machine"]["workers"])


class StoodStill(CommandFailed):
    """A machine that did not end in time: what it said last."""


class WrongOutput(Exception):
    """What a guest made is not the sorted input."""


class Guest(ABC):
    """A guest in one set-up."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.place = place
        self.tuning: Mapping[str, Any] = place.tuning[name]
        self.crew = Crew(name, place.work / name)

    @abstractmethod
    def version(self) -> str:
        """Which kernel it is."""

    @abstractmethod
    def turn(self, task: Task) -> Turn:
        """Boots it, has it work, and ends it."""

    def pool(self, task: Task) -> int:
        """Bytes for data, in whole 2 MiB."""
        wanted = task.bytes + task.records * ENTRY + ON_THE_WAY
        return -(-wanted >> 21) << 21

    def memory(self, task: Task) -> str:
        """Each machine's memory: as much as `nile run` gives a node for so much data."""
        return mebi(2 * self.pool(task) + KERNEL)

    def disk(self, task: Task) -> str:
        return mebi(4 * task.bytes + MARGIN)

    def do(self, *words: str | Path) -> str:
        """Runs the `nile` command; gives what it prints."""
        return self.crew.run(self.command(*words), LIMIT_SECONDS).out

    def command(self, *words: str | Path) -> Command:
        # A cluster's sockets, keys and disks lie there.
        environment = {"XDG_RUNTIME_DIR": str(self.crew.folder)}
        return Command([self.place.nile, *words], environment)

    def end(self) -> None:
        self.crew.end()


class Linux(Guest):
    """A Linux that does what the command line of its kernel says, and powers off."""

    def __init__(self, name: str, place: Place, image: Path, archive: Path, release: str) -> None:
        super().__init__(name, place)
        self.image = image
        self.archive = archive
        self.release = release

    def version(self) -> str:
        return self.release

    def line(self, task: Task, number: int) -> str:
        """The kernel's command line, in the machine with this number, from 1."""
        said = {
            "work": "sort" if self.place.nodes > 1 else "sort,fwq,switch",
            "nodes": self.place.nodes,
            "node": number,
            "records": task.records,
            "threads": self.place.workers,
            "block": self.place.tuning["sort"]["block"],
            "io": self.tuning["io"],
            "checks": self.tuning["checks"],
            "quanta": task.quanta,
            "steps": self.place.tuning["fwq"]["steps"],
            "rounds": self.place.tuning["switch"]["rounds"],
            "times": self.place.tuning["switch"]["times"],
        }
        ours = " ".join(f"nile.{name}={value}" for name, value in said.items())
        return " ".join(filter(None, [SAYS, self.tuning["append"], ours]))

    def turn(self, task: Task) -> Turn:
        numbers = range(1, self.place.nodes + 1)
        if self.place.nodes > 1:
            dials = [word for number in numbers for word in ("--dial", f"n{number}")]
            self.begin("switch", "switch", self.crew.folder, *dials)
        limit = TURN_SECONDS + SECONDS_PER_MEBIBYTE * task.bytes / (1 << 20)
        running = [self.begin(f"n{it}", "guest", *self.words(task, it)) for it in numbers]
        patience = time.monotonic() + limit
        for number, process in zip(numbers, running, strict=True):
            try:
                status = process.wait(max(0, patience - time.monotonic()))
            except subprocess.TimeoutExpired:
                told = self.told(number)
                raise StoodStill(f"guest {number} did not end in {limit:.0f} s: {told}") from None
            if status != 0:
                told = self.told(number)
                raise CommandFailed(f"guest {number} ended with status {status}: {told}")
        said = [(self.crew.folder / f"n{number}.out").read_text() for number in numbers]
        return linux_turn(list(map(json.loads, said)), task)

    def told(self, number: int) -> str:
        """The last that a machine has said."""
        return gist((self.crew.folder / f"n{number}.err").read_text(errors="replace"))

    def begin(self, name: str, *words: str | Path) -> subprocess.Popen[bytes]:
        """Starts a `nile` command that goes on by itself."""
        out, err = (self.crew.folder / f"{name}.{kind}" for kind in ("out", "err"))
        return self.crew.start(self.command(*words), out, err)

    def words(self, task: Task, number: int) -> list[str | Path]:
        """What `nile guest` is told of the machine with this number."""
        disk = self.crew.folder / f"disk{number}"
        with disk.open("wb") as file:
            file.truncate(int(self.disk(task).removesuffix("M")) << 20)
        machine = ["--cores", str(self.place.cores), "--memory", self.memory(task)]
        card = ["--socket", self.crew.folder / f"n{number}.qemu", "--number", str(number)]
        system = ["--kernel", self.image, "--initrd", self.archive]
        line = ["--append", self.line(task, number), "--limit", str(LONGEST_SECONDS)]
        return [*machine, "--disk", disk, *card, *system, *line]


def linux_turn(said: Sequence[dict[str, Any]], task: Task) -> Turn:
    """What the documents of the machines that shared a sort say."""
    # One that fails takes the other with it.
    errors = [one["error"] for one in said if "error" in one]
    if errors:
        raise CommandFailed(f"the guest failed: {'; '.join(errors)}")
    done = [one["sort"] for one in said]
    records = sum(it["records"] for it in done)
    made, given = (added(it[name] for it in done) for name in ("checksum", "given_checksum"))
    # What a machine has comes before what the next one has.
    keys = [key for it in done for key in it["keys"] or ()]
    if not all(it["valid"] for it in done) or keys != sorted(keys) or made != given:
        raise WrongOutput(f"{records} records of {task.records}, not valid")
    if records != task.records:
        raise WrongOutput(f"{records} records of {task.records}")
    seconds = max(it["seconds"] for it in done)
    sort = Sort(seconds, records, made, linux_counts(done))
    return Turn(sort, linux_noise(said), linux_switch(said))


def linux_counts(done: Sequence[dict[str, Any]]) -> Counts:
    """What several machines have counted in their sort."""
    counted = [it["counts"] for it in done]
    causes = sorted({cause for it in counted for cause in it["interrupts"]})
    by_cause = {
        cause: [
            it["counts"]["interrupts"][cause][cpu] if cause in it["counts"]["interrupts"] else 0
            for it in done
            for cpu in it["workers"]
        ]
        for cause in causes
    }
    return Counts(
        interrupts={cause: counts for cause, counts in by_cause.items() if any(counts)},
        interrupts_per_worker=per_worker(by_cause),
        # Linux does not say whether a core was idle.
        interruptions_per_worker=None,
        context_switches=sum(it["context_switches"] for it in counted),
        page_faults=sum(it["page_faults"] for it in counted),
        # Linux counts them for nobody who does not trace.
        system_calls=None,
        copied_bytes=sum(it["copied_by_linux_bytes"] for it in counted),
    )


def linux_noise(said: Sequence[dict[str, Any]]) -> Noise | None:
    """The fixed work quantum, if one machine has done it."""
    noise = said[0].get("fwq")
    if noise is None:
        return None
    cpu = noise["cpu"]
    interrupts = {cause: it[cpu] for cause, it in noise["counts"]["interrupts"].items() if it[cpu]}
    rate = noise["cycles_per_second"] / 1e6
    return Noise([time / rate for time in noise["times"]], interrupts)


def linux_switch(said: Sequence[dict[str, Any]]) -> Switch | None:
    """The token between two processes, if one machine has measured it."""
    switch = said[0].get("switch")
    return Switch(switch["pass_ns"] / 1000, switch["switch_ns"] / 1000) if switch else None


def added(checksums: Iterable[str]) -> str:
    """The checksum of all records together."""
    return f"{sum(int(it, 16) for it in checksums) % (1 << 128):x}"


def per_worker(by_cause: Mapping[str, list[int]]) -> float:
    """The mean of a worker's interrupts of all causes."""
    sums = [sum(counts) for counts in zip(*by_cause.values(), strict=True)]
    return sum(sums) / len(sums) if sums else 0.0


def mebi(count: int) -> str:
    """Bytes as a size that the command line takes, in even MiB."""
    return f"{-(-count // (2 << 20)) * 2}M"
