"""The two that are measured: a hosted node, and Linux. A CPU each has for itself, and the client
another one, where there are two."""

import json
import os
import resource
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any

from harness.nileos import command_of
from harness.processes import Command, CommandFailed, Crew, send
from net.spaces import LINUX, NODE, TAP, Spaces, address

# How long a command of a node, and how long a client may take.
LIMIT_SECONDS = 120
CLIENT_SECONDS = 300

# As the control, the node's workers stand still for so long, and then go on for so long: for less
# than a message takes, or for long enough that a server can begin.
Hindrance = tuple[float, float]
OFTEN: Hindrance = (0.004, 0.00005)
LONG: Hindrance = (0.06, 0.02)

# What is downloaded.
BULK_BYTES = 32 << 20

# Where packages run: servers with the network of `net`, which has a core for itself, or one with a
# network of its own.
Places = Mapping[str, str]
APART: Places = {"net": "n1.c2", "web": "n1.c3", "echo": "n1.c3", "iperf": "n1.c3"}

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cpu:
    """Seconds of CPU that a turn took."""

    client: float
    system: float


def pinned(cpu: int) -> list[str]:
    """What has a command run on one CPU, if there is such a one."""
    return ["taskset", "--cpu-list", str(cpu)] if cpu in os.sched_getaffinity(0) else []


def used(pid: int) -> float:
    """Seconds of CPU of a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


class Bench:
    """All that takes part."""

    def __init__(self, work: Path, programs: Path, packages: Path, control: bool) -> None:
        self.peers = Crew("peers", work / "peers")
        self.crew = Crew("nileos", work / "nileos")
        for crew in (self.peers, self.crew):
            crew.folder.mkdir(parents=True)
        self.nile = programs / "nile"
        self.peer = programs / "nile-net-peer"
        self.packages = packages
        self.control = control
        self.content = work / "bulk"
        self.servers: list[int] = []
        self.places: Places = {}
        self.is_up = False

    def begin(self) -> None:
        """Starts the node and what stands in its place on Linux."""
        self.spaces = Spaces(self.peers)
        for name, words in {
            "echo": [self.peer, "echo", f"{address(LINUX)}:7"],
            "spin": [self.peer, "echo", f"{address(LINUX)}:8", "spin"],
            "iperf": ["iperf3", "--server"],
        }.items():
            log = self.peers.folder / f"{name}.log"
            command = Command(self.spaces.linux.words(*pinned(1), *words), {})
            self.servers.append(self.peers.start(command, log, log).pid)
        self.iperf = self.servers[-1]
        self.is_up = True
        up = [self.nile, "up", "--machine", "hosted", "--nodes", "1", "--disk", "256M"]
        up += ["--unsealed", "--interface", f"tap:{TAP}"]
        self.do(self.spaces.peer.words(*pinned(1), *up))
        self.content.write_bytes(os.urandom(BULK_BYTES))
        self.ask("put", self.content, "bulk")

    def place(self, places: Places) -> None:
        """Has these packages run there, and no others."""
        if self.places == places:
            return
        for name in self.places:
            self.ask("package", "stop", name)
        self.places = {}
        for name, core in places.items():
            self.ask("package", "start", name, "--on", core, "--share")
            self.places = {**self.places, name: core}
        patience = time.monotonic() + LIMIT_SECONDS
        servers = len(places) - ("net" in places)
        while len(json.loads(self.ask("net", "list", "--json"))["listeners"]) < servers:
            if time.monotonic() > patience:
                raise CommandFailed("the packages do not listen")
            time.sleep(0.1)

    def end(self) -> None:
        """Ends all; nothing is left."""
        for pid in self.workers():
            send(pid, SIGCONT)
        try:
            if self.is_up:
                self.ask("down")
        finally:
            self.crew.end()
            self.peers.end()

    def environment(self) -> dict[str, str]:
        # The cluster's sockets, keys and disks lie there.
        return {"XDG_RUNTIME_DIR": str(self.crew.folder), "NILE_PACKAGES": str(self.packages)}

    def ask(self, *words: str | Path) -> str:
        """Has `nile` do something; what it says."""
        return self.do([self.nile, *words])

    def do(self, words: list[str | Path]) -> str:
        return self.crew.run(Command(words, self.environment()), LIMIT_SECONDS).out

    def client(
        self, of: str, *words: str | Path, control: Hindrance | None = OFTEN
    ) -> tuple[Any, Cpu]:
        """Runs a client of the node or of Linux to its end: the document that it prints. If this
        is the control the node is hindered meanwhile as `control` says."""

        def system() -> float:
            return sum(map(used, self.crew.members() if of == "node" else self.servers))

        command = Command(self.spaces.peer.words(*pinned(0), *words), self.environment())
        before, children = system(), resource.getrusage(resource.RUSAGE_CHILDREN)
        with self.hindered(control) if of == "node" and control else nullcontext():
            said = self.peers.run(command, CLIENT_SECONDS).out
        after, all_of_them = system(), resource.getrusage(resource.RUSAGE_CHILDREN)
        client = all_of_them.ru_utime - children.ru_utime
        client += all_of_them.ru_stime - children.ru_stime
        return json.loads(said), Cpu(client, after - before)

    def system_calls(self, of: str) -> int:
        """Of the package `iperf`, or, as far as they read and write, of iperf3's server."""
        if of == "linux":
            said = Path(f"/proc/{self.iperf}/io").read_text().splitlines()
            return sum(int(it.split()[1]) for it in said if it.startswith(("syscr", "syscw")))
        nodes = json.loads(self.ask("status", "--json"))["nodes"]
        packages = [it for node in nodes for core in node["cores"] for it in core["packages"] or []]
        return sum(it["system_calls"] for it in packages if it["name"] == "iperf")

    def workers(self) -> list[int]:
        """The processes that are worker cores."""
        return [pid for pid in self.crew.members() if b"--worker-of-a-node" in command_of(pid)]

    @contextmanager
    def hindered(self, how: Hindrance) -> Iterator[None]:
        """As the control, has the workers stand still most of the time."""
        if not self.control:
            yield
            return
        over, workers = threading.Event(), self.workers()
        hinders = threading.Thread(target=hinder, args=(over, workers, how), daemon=True)
        hinders.start()
        try:
            yield
        finally:
            over.set()
            hinders.join()
            for pid in workers:
                send(pid, SIGCONT)


def hinder(over: threading.Event, workers: list[int], how: Hindrance) -> None:
    # Before all others of the machine, or it would come too late to stop them again.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    while not over.is_set():
        for what, seconds in zip((SIGSTOP, SIGCONT), how, strict=True):
            for pid in workers:
                send(pid, what)
            over.wait(seconds)


def node(port: int) -> str:
    return f"{NODE}:{port}"


def at(of: str, port: int) -> str:
    """A port of the node, or of Linux."""
    return node(port) if of == "node" else f"{address(LINUX)}:{port}"
