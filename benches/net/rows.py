"""What is measured: in each row, contestants that take turns. A turn gives figures by name, and the
CPU seconds of both sides."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.install import say
from harness.order import rotated
from harness.processes import CommandFailed
from net.spaces import LINUX, NODE, address
from net.system import Bench, Cpu, linux, node

# Connections that are open while a server is replaced.
CONNECTIONS = 100

# Rules, none of which is about what is measured.
RULES = 1000

Figures = Mapping[str, float]
Measure = Callable[["Task"], tuple[Figures, Cpu]]


@dataclass(frozen=True)
class Task:
    """What a turn works on, and how much of it."""

    bench: Bench
    # Seconds of traffic, and how often a server begins anew.
    seconds: float
    faults: int


@dataclass(frozen=True)
class Turn:
    figures: Figures
    cpu: Cpu


@dataclass
class Entry:
    """A contestant of a row and its turns. One that failed says why."""

    row: str
    name: str
    measure: Measure
    turns: list[Turn] = field(default_factory=list)
    failed: str | None = None


def run(entries: Sequence[Entry], task: Task, rounds: int) -> None:
    """Has the contestants of each row take their turns; who fails is out."""
    for number in range(rounds):
        for row in ROWS:
            for entry in rotated([it for it in entries if it.row == row], number):
                if entry.failed is not None:
                    continue
                name = f"round {number + 1} of {rounds}: {row}, {entry.name}"
                try:
                    entry.turns.append(Turn(*entry.measure(task)))
                except CommandFailed as why:
                    entry.failed = str(why)
                    say(f"{name} FAILED: {why}")
                else:
                    figures = entry.turns[-1].figures.items()
                    say(f"{name}: {', '.join(f'{key} {value:.4g}' for key, value in figures)}")


def entries(rows: Sequence[str]) -> list[Entry]:
    """The contestants of these rows."""
    return [
        Entry(row, name, measure) for row in rows for name, measure in ROWS[row].items()
    ]


def restart(task: Task) -> tuple[Figures, Cpu]:
    """A download while `net`, which has the connection, is ended and begins anew."""
    command = (task.bench.nile, "servers", "restart", "net")
    words = (node(80), "/data/bulk", task.bench.content, str(task.faults))
    said, cpu = task.bench.client("node", task.bench.peer, "download", *words, *command)
    return {**gaps(said), "mbit_s": said["per_second"] * 8 / 1e6}, cpu


def replace(task: Task) -> tuple[Figures, Cpu]:
    """Echoes on many connections while `net`, which has them, is replaced by another file of it."""
    command = (task.bench.nile, "servers", "replace", "net", "net")
    words = (node(7), str(CONNECTIONS), str(task.faults))
    said, cpu = task.bench.client("node", task.bench.peer, "echoes", *words, *command)
    return {**gaps(said), "echoes_s": said["per_second"]}, cpu


def gaps(said: Any) -> Figures:
    """The longest that nothing came, in milliseconds: beside a fault, and without one."""
    return {
        "half_ms": said["gap"]["half_us"] / 1e3,
        "p99_ms": said["gap"]["p99_us"] / 1e3,
        "quiet_p99_ms": said["quiet"]["p99_us"] / 1e3,
    }


def bulk(of: str, *more: str) -> Measure:
    """A stream of iperf3's: from the client, or, with `--reverse`, to it."""
    to = NODE if of == "node" else address(LINUX)
    return lambda task: stream(task, of, to, more)


def stream(task: Task, of: str, to: str, more: Sequence[str]) -> tuple[Figures, Cpu]:
    words = ("iperf3", "--json", "--client", to, "--time", f"{task.seconds:.0f}", *more)
    said, cpu = task.bench.client(of, *words)
    received = said["end"]["sum_received"]
    # Of CPU, as seconds for each gigabyte.
    gigabytes = max(received["bytes"] / 1e9, 1e-9)
    return {
        "mbit_s": received["bits_per_second"] / 1e6,
        "cpu_s_gb": (cpu.client + cpu.system) / gigabytes,
    }, cpu


def plain(*more: str) -> Measure:
    """The same by Linux whose segments are no longer than a frame, as those of a node are."""

    def measure(task: Task) -> tuple[Figures, Cpu]:
        task.bench.spaces.offloads(False)
        try:
            return stream(task, "linux", address(LINUX), more)
        finally:
            task.bench.spaces.offloads(True)

    return measure


def rtt(of: str, to: str, *more: str) -> Measure:
    """A message there and back."""

    def measure(task: Task) -> tuple[Figures, Cpu]:
        words: tuple[str | Path, ...] = (task.bench.peer, "rtt", to, str(task.seconds), *more)
        said, cpu = task.bench.client(of, *words)
        return {"half_us": said["half_us"], "p99_us": said["p99_us"]}, cpu

    return measure


def connects(of: str, to: str) -> Measure:
    """A connection for each message."""

    def measure(task: Task) -> tuple[Figures, Cpu]:
        words = (task.bench.peer, "connects", to, str(task.seconds))
        said, cpu = task.bench.client(of, *words)
        return {"per_second": said["per_second"], "p99_us": said["p99_us"]}, cpu

    return measure


ROWS: dict[str, dict[str, Measure]] = {
    "restart": {"NileOS": restart},
    "replace": {"NileOS": replace},
    "bulk": {
        "NileOS receives": bulk("node"),
        "NileOS sends": bulk("node", "--reverse"),
        "Linux receives": bulk("linux"),
        "Linux sends": bulk("linux", "--reverse"),
        "Linux receives frames": plain(),
        "Linux sends frames": plain("--reverse"),
    },
    "rtt": {
        "NileOS": rtt("node", node(7)),
        "Linux sleeps": rtt("linux", linux(7)),
        "Linux polls": rtt("linux", linux(8), "spin"),
    },
    "connections": {
        "NileOS": connects("node", node(7)),
        "Linux": connects("linux", linux(7)),
    },
}
