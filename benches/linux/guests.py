"""The guests that are measured: a NileOS node, and Linux in several set-ups. Each is booted for its
turn, sorts, does the fixed work quantum, and is powered off."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.processes import Command, CommandFailed, Crew

RECORD = 100

# Bytes of the index for each record, of buffers on their way, of kernel and services, and of what
# else lies on a disk: as `nile run` has it.
ENTRY = 16
ON_THE_WAY = 128 << 20
KERNEL = 256 << 20
MARGIN = 256 << 20

# How long a machine may take for all that it does in a turn.
LIMIT_SECONDS = 600


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
class Turn:
    """What was measured in a guest's turn."""

    sort: Sort
    noise: Noise


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

    @property
    def cores(self) -> int:
        return int(self.tuning["machine"]["cores"])

    @property
    def workers(self) -> int:
        return int(self.tuning["machine"]["workers"])


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
        """The machine's memory: as much as `nile run` gives a node for so much data."""
        return mebi(2 * self.pool(task) + KERNEL)

    def disk(self, task: Task) -> str:
        return mebi(4 * task.bytes + MARGIN)

    def do(self, *words: str | Path) -> str:
        """Runs the `nile` command; gives what it prints."""
        # A cluster's sockets, keys and disks lie there.
        environment = {"XDG_RUNTIME_DIR": str(self.crew.folder)}
        command = Command([self.place.nile, *words], environment)
        return self.crew.run(command, LIMIT_SECONDS).out

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

    def line(self, task: Task) -> str:
        """The kernel's command line."""
        said = {
            "work": "sort,fwq",
            "records": task.records,
            "threads": self.place.workers,
            "block": self.place.tuning["sort"]["block"],
            "io": self.tuning["io"],
            "checks": self.tuning["checks"],
            "quanta": task.quanta,
            "steps": self.place.tuning["fwq"]["steps"],
        }
        ours = " ".join(f"nile.{name}={value}" for name, value in said.items())
        return " ".join(filter(None, ["console=ttyS0 quiet panic=-1", self.tuning["append"], ours]))

    def turn(self, task: Task) -> Turn:
        disk = self.crew.folder / "disk"
        with disk.open("wb") as file:
            file.truncate(int(self.disk(task).removesuffix("M")) << 20)
        machine = ["--cores", str(self.place.cores), "--memory", self.memory(task)]
        devices = ["--disk", disk, "--socket", self.crew.folder / "card"]
        system = ["--kernel", self.image, "--initrd", self.archive, "--append", self.line(task)]
        said = self.do("guest", *machine, *devices, *system, "--limit", str(LIMIT_SECONDS))
        return linux_turn(json.loads(said), task)


def linux_turn(said: dict[str, Any], task: Task) -> Turn:
    """What a guest's document says."""
    if "error" in said:
        raise CommandFailed(f"the guest failed: {said['error']}")
    done = said["sort"]
    if not done["valid"] or done["records"] != task.records:
        raise WrongOutput(f"{done['records']} records of {task.records}, not valid")
    counted = done["counts"]
    by_cause = {
        cause: [counts[cpu] for cpu in done["workers"]]
        for cause, counts in counted["interrupts"].items()
    }
    counts = Counts(
        interrupts={cause: counts for cause, counts in by_cause.items() if any(counts)},
        interrupts_per_worker=per_worker(by_cause),
        # Linux does not say whether a core was idle.
        interruptions_per_worker=None,
        context_switches=counted["context_switches"],
        page_faults=counted["page_faults"],
        # Linux counts them for nobody who does not trace.
        system_calls=None,
        copied_bytes=counted["copied_by_linux_bytes"],
    )
    noise = said["fwq"]
    cpu = noise["cpu"]
    interrupts = {cause: it[cpu] for cause, it in noise["counts"]["interrupts"].items() if it[cpu]}
    rate = noise["cycles_per_second"] / 1e6
    return Turn(
        Sort(done["seconds"], done["records"], done["checksum"], counts),
        Noise([time / rate for time in noise["times"]], interrupts),
    )


def per_worker(by_cause: Mapping[str, list[int]]) -> float:
    """The mean of a worker's interrupts of all causes."""
    sums = [sum(counts) for counts in zip(*by_cause.values(), strict=True)]
    return sum(sums) / len(sums) if sums else 0.0


def mebi(count: int) -> str:
    """Bytes as a size that the command line takes, in even MiB."""
    return f"{-(-count // (2 << 20)) * 2}M"
