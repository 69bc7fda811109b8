"""A NileOS machine that is divided into domains, and a Linux guest that gives up CPUs and memory.
Each is booted for its turn, does its rounds and is powered off. Times are in milliseconds."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.install import say
from harness.order import rotated
from harness.processes import Command, CommandFailed, Crew
from linux.guests import SAYS
from linux.kernel import Kernel

# The machine that both have.
CORES, MEBIBYTES = 4, 1536
MACHINE = ["--cores", str(CORES), "--memory", f"{MEBIBYTES}M"]

# NileOS: what the supervisor has.
CONFIG = '[supervisor]\ncores = 1\nmemory = "96M"\n'

# The control does each so many times in the time of one.
HINDERED_TIMES = 16

# Linux keeps so much where it can be taken away.
MOVABLE = "movablecore=768M"

# How long a turn may take: to boot, for each round, and for the command to end then.
BOOT_SECONDS, ROUND_SECONDS, GRACE_SECONDS = 120, 30, 30

# Of each name what was measured, round by round.
Times = dict[str, list[float]]


class System(ABC):
    """A system and what its turns have measured. One that failed says why."""

    name: str

    def __init__(self, work: Path, nile: Path) -> None:
        self.crew = Crew(self.name, work / self.name)
        self.nile = nile
        self.times: Times = {}
        self.failed: str | None = None

    @abstractmethod
    def turn(self, rounds: int) -> Times:
        """Boots it, has it do its rounds, and ends it."""

    def take(self, rounds: int) -> None:
        """Has its turn, and keeps what that measured."""
        self.crew.folder.mkdir(parents=True, exist_ok=True)
        for name, values in self.turn(rounds).items():
            self.times.setdefault(name, []).extend(values)

    def said(self, rounds: int, *words: str | Path) -> Any:
        """The document that a `nile` command prints."""
        limit = BOOT_SECONDS + ROUND_SECONDS * rounds
        environment = {"XDG_RUNTIME_DIR": str(self.crew.folder)}
        command = Command([self.nile, *words, "--limit", str(limit)], environment)
        # It ends by itself before, and says what the machine said last.
        return json.loads(self.crew.run(command, limit + GRACE_SECONDS).out)


class NileOs(System):
    """A machine whose supervisor carries out commands about domains."""

    name = "NileOS"

    def __init__(self, work: Path, nile: Path, control: bool = False) -> None:
        super().__init__(work, nile)
        self.each = HINDERED_TIMES if control else 1

    def turn(self, rounds: int) -> Times:
        config = self.crew.folder / "node.toml"
        config.write_text(CONFIG)
        machine = ["--machine", "qemu", *MACHINE, "--config", config]
        program = f"domain-times rounds={rounds} times={self.each}"
        try:
            said = self.said(rounds, "boot", *machine, "--program", program, "--json")
        except CommandFailed:
            # A machine whose commands failed has said which.
            try:
                said = json.loads((self.crew.folder / "out.log").read_text())
            except ValueError:
                said = None
            if not (isinstance(said, dict) and "program" in said):
                raise
        return nileos(said)


def nileos(said: Any) -> Times:
    """What a machine reports: figures are named `WHAT ROUND` and in microseconds."""
    program = said["program"]
    if not program["passed"]:
        failures = program["failures"]
        raise CommandFailed(f"{len(failures)} commands failed; the first: {failures[0]}")
    rounds: dict[str, dict[int, float]] = {}
    for name, micros in program["figures"].items():
        what, _, number = name.rpartition(" ")
        rounds.setdefault(what, {})[int(number)] = micros / 1000
    times = {what: [of[at] for at in sorted(of)] for what, of in rounds.items()}
    return with_core(times) | {"boot": [said["boot_us"] / 1000]}


class Linux(System):
    """A guest whose only process takes a CPU and memory offline and online again."""

    name = "Linux"

    def __init__(self, work: Path, nile: Path) -> None:
        super().__init__(work, nile)
        self.release = ""
        self.image = self.archive = Path()
        # Memory blocks that it has kept although nobody used them.
        self.refused = 0

    def boots(self, kernel: Kernel, archive: Path) -> None:
        """Says what it boots."""
        self.image, self.archive, self.release = kernel.image(), archive, kernel.release()

    def turn(self, rounds: int) -> Times:
        line = f"{SAYS} {MOVABLE} nile.work=hotplug nile.rounds={rounds}"
        system = ["--kernel", self.image, "--initrd", self.archive, "--append", line]
        times, refused = linux(self.said(rounds, "guest", *MACHINE, *system))
        self.refused += refused
        return times


def linux(said: Any) -> tuple[Times, int]:
    """What a guest reports, in microseconds, and how many blocks it refused to give up."""
    if "error" in said:
        raise CommandFailed(f"the guest failed: {said['error']}")
    done = dict(said["hotplug"])
    refused = int(done.pop("refused"))
    times = {what: [micros / 1000 for micros in of] for what, of in done.items()}
    return with_core(times), refused


def with_core(times: Times) -> Times:
    """The same with what a core takes that leaves and comes back, by round."""
    both = zip(times["core less"], times["core more"], strict=True)
    return times | {"core": [less + more for less, more in both]}


def run(systems: Sequence[System], runs: int, rounds: int) -> None:
    """Has all take their turns; who fails is out."""
    for number in range(runs):
        for system in rotated(systems, number):
            if system.failed is not None:
                continue
            name = f"turn {number + 1} of {runs}: {system.name}"
            try:
                system.take(rounds)
            except (CommandFailed, KeyError, ValueError) as why:
                system.failed = str(why)
                say(f"{name} FAILED: {why}")
            else:
                say(f"{name} is over")
