"""What is measured: in each row, contestants that take turns. A turn gives figures by name, and the
CPU seconds of both sides."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from harness.install import say
from harness.order import rotated
from harness.processes import CommandFailed
from net.spaces import LINUX, NODE, address
from net.system import APART, LONG, OFTEN, Bench, Cpu, Hindrance, Places, at, node

# Connections that are open while a server is replaced.
CONNECTIONS = 100

# A package with a network of its own.
IPERF: Places = {"iperf": "n1.c3"}
ECHO: Places = {"echo": "n1.c3"}

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
    task.bench.place(APART)
    command = (task.bench.nile, "servers", "restart", "net")
    words = ("download", node(80), "/data/bulk", task.bench.content, str(task.faults), *command)
    said, cpu = task.bench.client("node", task.bench.peer, *words, control=LONG)
    return {**gaps(said), "mbit_s": said["per_second"] * 8 / 1e6}, cpu


def replace(task: Task) -> tuple[Figures, Cpu]:
    """Echoes on many connections while `net`, which has them, is replaced by another file of it."""
    task.bench.place(APART)
    command = (task.bench.nile, "servers", "replace", "net", "net")
    words = ("echoes", node(7), str(CONNECTIONS), str(task.faults), *command)
    said, cpu = task.bench.client("node", task.bench.peer, *words, control=LONG)
    return {**gaps(said), "echoes_s": said["per_second"]}, cpu


def gaps(said: Any) -> Figures:
    """The longest that nothing came, in milliseconds: beside a fault, and without one."""
    return {
        "half_ms": said["gap"]["half_us"] / 1e3,
        "p99_ms": said["gap"]["p99_us"] / 1e3,
        "quiet_p99_ms": said["quiet"]["p99_us"] / 1e3,
    }


def of_node(places: Places, measure: Callable[..., tuple[Figures, Cpu]], *more: Any) -> Measure:
    """A measurement of a node whose packages run there."""

    def measured(task: Task) -> tuple[Figures, Cpu]:
        task.bench.place(places)
        return measure(task, "node", *more)

    return measured


def of_linux(measure: Callable[..., tuple[Figures, Cpu]], *more: Any) -> Measure:
    """A measurement of Linux."""
    return lambda task: measure(task, "linux", *more)


def stream(
    task: Task, of: str, *more: str, control: Hindrance | None = LONG
) -> tuple[Figures, Cpu]:
    """A stream of iperf3's: from the client, or, with `--reverse`, to it."""
    to = NODE if of == "node" else address(LINUX)
    words = ("iperf3", "--json", "--client", to, "--time", f"{task.seconds:.0f}", *more)
    said, cpu = task.bench.client(of, *words, control=control)
    received = said["end"].get("sum_received")
    if received is None:
        raise CommandFailed(f"iperf3 has no result: {said.get('error', 'it does not say why')}")
    # Of CPU, as seconds for each gigabyte.
    gigabytes = max(received["bytes"] / 1e9, 1e-9)
    return {
        "mbit_s": received["bits_per_second"] / 1e6,
        "cpu_s_gb": (cpu.client + cpu.system) / gigabytes,
    }, cpu


def frames(task: Task, of: str, *more: str) -> tuple[Figures, Cpu]:
    """The same by Linux whose segments are no longer than a frame, as those of a node are."""
    task.bench.spaces.offloads(False)
    try:
        return stream(task, of, *more)
    finally:
        task.bench.spaces.offloads(True)


def rtt(
    task: Task, of: str, port: int, *more: str, control: Hindrance | None = OFTEN
) -> tuple[Figures, Cpu]:
    """A message there and back."""
    words = ("rtt", at(of, port), str(task.seconds), *more)
    said, cpu = task.bench.client(of, task.bench.peer, *words, control=control)
    return {"half_us": said["half_us"], "p99_us": said["p99_us"]}, cpu


def connects(
    task: Task, of: str, control: Hindrance | None = OFTEN
) -> tuple[Figures, Cpu]:
    """A connection for each message."""
    words = ("connects", at(of, 7), str(task.seconds))
    said, cpu = task.bench.client(of, task.bench.peer, *words, control=control)
    return {"per_second": said["per_second"], "half_us": said["half_us"]}, cpu


def calls(task: Task, of: str) -> tuple[Figures, Cpu]:
    """System calls of whoever receives a stream, by the megabyte: all that a package makes; of a
    server of Linux those alone that read and write."""
    before = task.bench.system_calls(of)
    said, cpu = stream(task, of)
    megabytes = said["mbit_s"] * task.seconds / 8
    return {"per_mb": (task.bench.system_calls(of) - before) / max(megabytes, 1e-9)}, cpu


def filtered(task: Task, rules: int) -> tuple[Figures, Cpu]:
    """A stream to the client through a packet filter with so many rules before the one that lets it
    go on. As the control it is those rules that hinder."""
    task.bench.place(IPERF)
    others = [f"deny in from 198.18.{it // 250}.{it % 250}" for it in range(rules)]
    file = task.bench.content.with_name("rules")
    file.write_text("\n".join([*others, "allow in", "allow out"]) + "\n")
    task.bench.ask("net", "filter", "n1", "set", file)
    return stream(task, "node", "--reverse", control=LONG if rules else None)


ROWS: dict[str, dict[str, Measure]] = {
    "restart": {"NileOS": restart},
    "replace": {"NileOS": replace},
    "bulk": {
        "NileOS receives": of_node(IPERF, stream),
        "NileOS sends": of_node(IPERF, stream, "--reverse"),
        "NileOS, net apart, receives": of_node(APART, stream),
        "NileOS, net apart, sends": of_node(APART, stream, "--reverse"),
        "Linux receives": of_linux(stream),
        "Linux sends": of_linux(stream, "--reverse"),
        "Linux receives frames": of_linux(frames),
        "Linux sends frames": of_linux(frames, "--reverse"),
    },
    "rtt": {
        "NileOS": of_node(ECHO, rtt, 7),
        "NileOS, net apart": of_node(APART, partial(rtt, control=None), 7),
        "Linux sleeps": of_linux(rtt, 7),
        "Linux polls": of_linux(rtt, 8, "spin"),
    },
    "connections": {
        "NileOS": of_node(ECHO, connects),
        "NileOS, net apart": of_node(APART, partial(connects, control=None)),
        "Linux": of_linux(connects),
    },
    "calls": {
        "NileOS": of_node(APART, calls),
        "Linux": of_linux(calls),
    },
    "filter": {
        "NileOS": lambda task: filtered(task, 0),
        "NileOS with rules": lambda task: filtered(task, RULES),
    },
}
