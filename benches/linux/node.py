"""The NileOS guest: a node that is up in QEMU, whose jobs are submitted as any others are."""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from harness.processes import CommandFailed
from linux.guests import (
    Counts,
    Guest,
    Noise,
    Place,
    Sort,
    Switch,
    Task,
    Turn,
    WrongOutput,
    mebi,
    per_worker,
)

# The control: for how long the machine stands still in the midst of a sort, and how often workers
# are ticked.
HINDERED_SECONDS = 8.0
TICKS = 100


# And how often a token goes between two packages beside a third one, which loops.
TIMES = 20


# The node, and the core's number in it.
CoreName = tuple[str, int]


class NileOs(Guest):
    """A node as `nile run` starts it for so much data. As the control it stands still in every
    sort, and its workers are ticked."""

    def __init__(self, name: str, place: Place, control: bool = False) -> None:
        super().__init__(name, place)
        self.control = control
        # Where what the node says is kept, while it is up.
        self.log = Path()

    def version(self) -> str:
        said = subprocess.run(
            [self.place.nile, "--version"], capture_output=True, text=True, check=True
        )
        words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
        commit = subprocess.run(words, capture_output=True, text=True)
        return f"{said.stdout.removeprefix('nile ').strip()} {commit.stdout.strip()}".strip()

    def turn(self, task: Task) -> Turn:
        self.begin(task)
        try:
            sort = self.sort(task)
            noise = self.noise(task) if self.place.nodes == 1 else None
        finally:
            self.do("down")
        return Turn(sort, noise, self.switch(task) if noise else None)

    def begin(self, task: Task) -> None:
        text = f"{self.tuning['config']}\n[roles]\n{roles(self.place)}\n"
        if self.control:
            text += f"[timer]\ntick_hz = {TICKS}\ntick_workers = true\n"
        config = self.crew.folder / "node.toml"
        config.write_text(text)
        nodes = str(self.place.nodes)
        node = ["--machine", "qemu", "--nodes", nodes, "--cores", str(self.place.cores)]
        memory = ["--memory", self.memory(task), "--pool", mebi(self.pool(task))]
        disk = ["--disk", self.disk(task), "--disk-folder", self.crew.folder, "--disk-plain"]
        how = [*self.tuning["up"], "--config", config]
        said = self.do("up", *node, *memory, *disk, *how, "--json")
        self.log = Path(json.loads(said)["nodes"][0]["log"])
        self.job("tera", *self.reducers(), "--output", "in", "gen", str(task.records))
        # Once before: the machine's memory is the host's when it is first touched, not before.
        self.job("tera", *self.sorting("before"), "sort")
        self.do("rm", "before")

    def sorting(self, output: str) -> list[str]:
        """The words of a sort to `output`."""
        samples = ["--samples", str(self.place.tuning["sort"]["samples"])]
        return ["--input", "in", "--output", output, *self.reducers(), *samples]

    def reducers(self) -> list[str]:
        """As many as there are workers."""
        return ["--reducers", str(self.place.nodes * self.place.workers)]

    def sort(self, task: Task) -> Sort:
        hooks = ["--at", f"tera:mapping={self.hindrance()}"] if self.control else []
        before = self.cores()
        seconds = self.job("tera", *self.sorting("out"), *hooks, "sort")["seconds"]
        after = self.cores()
        self.job("tera", "--input", "out", "--output", "report", "--reducers", "1", "validate")
        file = self.crew.folder / "report"
        self.do("get", "report", file)
        found = dict(line.split() for line in file.read_text().splitlines() if line.strip())
        if found["records"] != str(task.records) or found["unordered"] != "0":
            raise WrongOutput(f"{found['records']} records of {task.records}, {found}")
        counted = counts(before, after)
        if self.place.nodes > 1:
            # What is sealed in frames is not counted.
            counted = replace(counted, copied_bytes=None)
        return Sort(float(seconds), task.records, found["checksum"], counted)

    def noise(self, task: Task) -> Noise:
        steps = str(self.place.tuning["fwq"]["steps"])
        before = self.cores()
        self.job("fwq", "--output", "times", "--reducers", "1", str(task.quanta), steps)
        after = self.cores()
        file = self.crew.folder / "times"
        self.do("get", "times", file)
        rate = self.megahertz()
        times = [int(line) / rate for line in file.read_text().split()]
        # One worker has done it, and others have not computed.
        calls = {
            core: one["system_calls"] - before[core]["system_calls"] for core, one in after.items()
        }
        busy = max(workers_of(after), key=lambda core: calls[core])
        causes = {cause: one[0] for cause, one in interrupts(before, after, [busy]).items()}
        return Noise(times, causes)

    def switch(self, task: Task) -> Switch:
        """A token between two packages of one worker, in the same machine once more."""
        table = self.place.tuning["switch"]
        times, beside = (TIMES, 1) if self.control else (table["times"], 0)
        program = f"switch-cost rounds={table['rounds']} times={times} beside={beside}"
        config = self.crew.folder / "node.toml"
        machine = ["--machine", "qemu", "--cores", str(self.place.cores)]
        machine += ["--memory", self.memory(task), "--config", config]
        said = json.loads(self.do("boot", *machine, "--program", program, "--json"))
        if not said["program"]["passed"]:
            raise CommandFailed(f"switch-cost failed: {said['program']['failures']}")
        # In hundredths of a nanosecond.
        return Switch(said["program"]["figures"]["switch"] / 1e5, None)

    def job(self, package: str, *words: str | Path) -> dict[str, Any]:
        """Runs a job of the project; gives what `nile run` says of it."""
        said = self.do("run", self.place.packages / f"{package}.elf", "--json", *words)
        document: dict[str, Any] = json.loads(said)
        return document

    def cores(self) -> dict[CoreName, dict[str, Any]]:
        """What the cores have counted so far."""
        nodes = json.loads(self.do("status", "--json"))["nodes"]
        return {(node["name"], core["id"]): core for node in nodes for core in node["cores"]}

    def megahertz(self) -> float:
        """The rate of the time-stamp counter, as the node has measured it."""
        said = re.search(r"tsc ([0-9.]+) MHz", self.log.read_text(errors="replace"))
        if not said:
            raise CommandFailed("the node does not say how fast its clock is")
        return float(said[1])

    def hindrance(self) -> str:
        """A command that has the machine stand still for a while."""
        machines = [pid for pid in self.crew.members() if is_qemu(pid)]
        pids = " ".join(map(str, machines))
        return f"kill -STOP {pids}; sleep {HINDERED_SECONDS}; kill -CONT {pids}"


def counts(before: Mapping[CoreName, Any], after: Mapping[CoreName, Any]) -> Counts:
    """What workers and the kernel have counted between two moments."""
    workers = workers_of(after)
    by_cause = interrupts(before, after, workers)
    each = per_worker(by_cause)
    wakes = mean(after[core]["wakes"] - before[core]["wakes"] for core in workers)
    calls = sum(after[core]["system_calls"] - before[core]["system_calls"] for core in workers)
    # A page fault ends an incarnation of its core: none is handled and forgotten.
    ends = sum(one["generation"] - before[core]["generation"] for core, one in after.items())
    return Counts(
        interrupts=by_cause,
        interrupts_per_worker=each,
        interruptions_per_worker=each - wakes,
        context_switches=None,
        page_faults=ends,
        system_calls=calls,
        # Devices and packages have the same buffers; there is no call that copies records.
        copied_bytes=0,
    )


def roles(place: Place) -> str:
    """Which cores do what. Of two cores one manages and has the devices, too."""
    devices = place.cores - place.workers - 1
    others = f"management = [0]\nnetwork = [{devices}]\ndisk = [{devices}]"
    return f"{others}\nworker = {place.workers}"


def workers_of(cores: Mapping[CoreName, Any]) -> list[CoreName]:
    return sorted(core for core, one in cores.items() if one["roles"] == ["worker"])


def interrupts(
    before: Mapping[CoreName, Any], after: Mapping[CoreName, Any], cores: list[CoreName]
) -> dict[str, list[int]]:
    """What each of some cores has had of each cause that any of them has had."""
    causes = {cause for core in cores for cause in after[core]["interrupts"]}
    had = {
        cause: [
            after[core]["interrupts"].get(cause, 0) - before[core]["interrupts"].get(cause, 0)
            for core in cores
        ]
        for cause in sorted(causes)
    }
    return {cause: counts for cause, counts in had.items() if any(counts)}


def is_qemu(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("qemu-system")
    except OSError:
        return False
