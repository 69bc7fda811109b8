"""Those whose ranks are to be fresh. Each takes edges as lines, and tells of each publication as a
line of JSON with `events`, `error` and `top`."""

import json
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from harness.install import Tools
from harness.nileos import command_of, mebi
from harness.processes import Command, CommandFailed, Crew, gist, send

# How long a node may take to start, and ranks to settle in the end.
LIMIT_SECONDS = 300

# As the control, workers of NileOS stand still for so long, and then go on for so long.
HINDERED_SECONDS = (3.0, 0.3)

# Cores of a node beside those that have the graph.
OTHER_CORES = 2

BENCHES = Path(__file__).parent.parent


@dataclass(frozen=True)
class Place:
    """Where contestants run, and what all are told of the graph."""

    work: Path
    programs: Path
    tools: Tools
    tuning: Mapping[str, Any]
    # The vertices that there will be, the edges, and how large all errors together may be.
    vertices: int
    edges: int
    error: float
    # How many parts a divided graph has.
    parts: int = 2
    control: bool = False


class Contestant(ABC):
    """One of those that take turns."""

    packages: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.place = place
        self.tuning: Mapping[str, Any] = place.tuning[name]
        self.crew = Crew(name, place.work / name)
        self.processes: list[subprocess.Popen[bytes]] = []

    @abstractmethod
    def version(self) -> str:
        """Which one it is."""

    @abstractmethod
    def begin(self) -> tuple[BinaryIO, BinaryIO]:
        """Starts it; where edges go, and where publications come from."""

    @abstractmethod
    def ranks(self, last: Callable[[], dict[str, Any]]) -> dict[int, float]:
        """The highest ranks of all that has come, in their order; no more comes. What it says last
        is waited for by `last`."""

    def said(self) -> str:
        """What its processes have complained of, a line each."""
        logs = sorted(self.crew.folder.glob("*.log"))
        said = ((log.stem, log.read_text(errors="replace")) for log in logs)
        return "".join(f"; {name} says: {gist(text)}" for name, text in said if text.strip())

    def end(self) -> None:
        """Ends what was started."""
        self.crew.end()
        for process in self.processes:
            for pipe in filter(None, (process.stdin, process.stdout)):
                pipe.close()
            process.wait()
        self.processes.clear()

    def open(self, name: str, command: Command) -> subprocess.Popen[bytes]:
        """Starts a process that is written to and read from."""
        self.processes.append(self.crew.open(command, self.crew.folder / f"{name}.log"))
        return self.processes[-1]


class NileOs(Contestant):
    """A hosted node with one worker core that has the graph, or one for each of its parts."""

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name, place)
        self.parts = place.parts if self.tuning.get("divided") else 1
        if self.parts > 1:
            self.tuning = {**self.tuning, "title": f"{self.tuning['title']} {self.parts} parts"}
        self.nile = place.programs / "nile"
        self.over = threading.Event()

    def version(self) -> str:
        said = subprocess.run([self.nile, "--version"], capture_output=True, text=True, check=True)
        return said.stdout.removeprefix("nile ").strip()

    def begin(self) -> tuple[BinaryIO, BinaryIO]:
        vertices, edges = self.place.vertices, self.place.edges
        memory = self.tuning["memory_edge"] * edges + self.tuning["memory_vertex"] * vertices
        options = ["--machine", "hosted", "--nodes", "1", "--unsealed"]
        options += ["--cores", str(OTHER_CORES + self.parts)]
        options += ["--memory", mebi(memory + (self.tuning["memory"] << 20))]
        copies = str(self.tuning["copies"])
        if copies != "0":
            options += ["--disk", mebi(self.tuning["disk_edge"] * edges + (1 << 30))]
            options += ["--pool", "64M"]
        self.do("up", *options)
        bounds = ["--vertices", str(vertices), "--error", str(self.place.error)]
        bounds += ["--parts", str(self.parts)]
        self.do("graph", "create", "web", "--copies", copies, *bounds)
        feed = self.open("feed", self.command("graph", "feed", "web", "-"))
        words = ["graph", "freshness", "web", "--watch", "-n", "1", "--json"]
        watch = self.open("watch", self.command(*words))
        if self.place.control:
            threading.Thread(target=self.hinder, daemon=True).start()
        return piped(feed)[0], piped(watch)[1]

    def ranks(self, last: Callable[[], dict[str, Any]]) -> dict[int, float]:
        feed = self.processes[0]
        status = feed.wait(LIMIT_SECONDS)
        if status != 0:
            log = (self.crew.folder / "feed.log").read_text(errors="replace")
            raise CommandFailed(f"nile ended with status {status}: {gist(log)}")
        words = ["graph", "top", "web", "-n", "100", "--settled", "--json"]
        said = self.crew.run(self.command(*words, "--timeout", "60"), LIMIT_SECONDS)
        return {it["vertex"]: it["rank"] for it in json.loads(said.out)["top"]}

    def end(self) -> None:
        self.over.set()
        for pid in self.workers():
            send(pid, signal.SIGCONT)
        if self.crew.members():
            self.do("down")
        super().end()

    def hinder(self) -> None:
        """Has the workers stand still most of the time."""
        still, working = HINDERED_SECONDS
        while not self.over.is_set():
            for what, seconds in ((signal.SIGSTOP, still), (signal.SIGCONT, working)):
                for pid in self.workers():
                    send(pid, what)
                self.over.wait(seconds)

    def workers(self) -> list[int]:
        """The processes that are worker cores."""
        return [pid for pid in self.crew.members() if b"--worker-of-a-node" in command_of(pid)]

    def command(self, *words: str) -> Command:
        # The cluster's sockets, keys and disks lie there.
        return Command([self.nile, *words], {"XDG_RUNTIME_DIR": str(self.crew.folder)})

    def do(self, *words: str) -> None:
        self.crew.run(self.command(*words), LIMIT_SECONDS)


class Loop(Contestant):
    """A library that computes the ranks again and again, of what has come."""

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name, place)
        self.packages = ("numpy", "scipy", "polars", *self.tuning["packages"])

    def version(self) -> str:
        versions = self.place.tools.packages
        return " ".join(f"{it} {versions[it]}" for it in self.tuning["packages"])

    def begin(self) -> tuple[BinaryIO, BinaryIO]:
        words = [self.place.tools.python, "-m", "stream.loop", self.name]
        words += [str(self.place.vertices), str(self.place.error)]
        environment = {"PYTHONPATH": str(BENCHES), **self.tuning.get("environment", {})}
        return piped(self.open("loop", Command(words, environment)))

    def ranks(self, last: Callable[[], dict[str, Any]]) -> dict[int, float]:
        said = last().get("ranks")
        if said is None:
            log = (self.crew.folder / "loop.log").read_text(errors="replace")
            raise CommandFailed(f"{self.name} ended early: {gist(log)}")
        return {int(vertex): rank for vertex, rank in said.items()}


def piped(process: subprocess.Popen[bytes]) -> tuple[BinaryIO, BinaryIO]:
    """What a process reads and what it says."""
    assert process.stdin and process.stdout
    return process.stdin, process.stdout


def contestants(names: list[str], place: Place) -> list[Contestant]:
    """Those of these names, as the tuning file has them."""
    return [
        NileOs(name, place) if name.startswith("nileos") else Loop(name, place) for name in names
    ]
