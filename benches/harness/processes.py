"""The processes of a contestant: started, timed, watched and ended.

All that a contestant starts has its mark in the environment, daemons and what they start included,
so that its memory can be summed and nothing of it is left behind."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MARK = "NILE_PEER"

# The shortest time between two looks at the memory, and how many times as long as a look it is at
# least: a look goes through page tables, while the processes work. No time is taken meanwhile.
EVERY_SECONDS = 0.01
PART = 4

# How long processes may take to end when they are asked to.
GRACE_SECONDS = 5.0


class CommandFailed(Exception):
    """A command that ended with another status than 0, or not in time: which, and why."""


@dataclass(frozen=True)
class Finished:
    """A command that has ended well: how long it took from its start to its end, what it said."""

    seconds: float
    out: str
    err: str


@dataclass(frozen=True)
class Command:
    """What is to be run, and what it finds in its environment besides what this process has."""

    words: Sequence[str | Path]
    environment: Mapping[str, str]


class Crew:
    """The processes that carry one mark, and the folder where they run."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder
        self.name = name
        self.mark = f"{MARK}={folder}"

    def start(self, command: Command, out: Path, err: Path) -> subprocess.Popen[bytes]:
        """Starts a process, which is killed when this one is."""
        with out.open("wb") as said:
            return self.begin(command, subprocess.DEVNULL, said, err)

    def open(self, command: Command, err: Path) -> subprocess.Popen[bytes]:
        """Starts one that is written to and read from."""
        return self.begin(command, subprocess.PIPE, subprocess.PIPE, err)

    def begin(
        self, command: Command, reads: int, says: int | BinaryIO, err: Path
    ) -> subprocess.Popen[bytes]:
        environment = os.environ | dict(command.environment)
        environment[MARK] = str(self.folder)
        words = ["setpriv", "--pdeathsig", "KILL", "--", *map(str, command.words)]
        with err.open("wb") as told:
            return subprocess.Popen(
                words, env=environment, cwd=self.folder, stdin=reads, stdout=says, stderr=told
            )

    def run(self, command: Command, limit: float) -> Finished:
        """Runs a command to its end, for at most `limit` seconds."""
        out, err = self.folder / "out.log", self.folder / "err.log"
        begun = time.perf_counter()
        process = self.start(command, out, err)
        # Waiting with a limit would look every 50 ms; this way the end is seen when it comes.
        timer = threading.Timer(limit, process.kill)
        timer.start()
        try:
            status = process.wait()
        except BaseException:
            process.terminate()
            self.end()
            raise
        finally:
            timer.cancel()
        seconds = time.perf_counter() - begun
        said, told = (path.read_text(errors="replace") for path in (out, err))
        if status != 0:
            late = f" (it had {limit:.0f} s)" if seconds >= limit else ""
            program = Path(command.words[0]).name
            raise CommandFailed(f"{program} ended with status {status}{late}: {gist(told + said)}")
        return Finished(seconds, said, told)

    def members(self) -> list[int]:
        """The processes with the mark that live."""
        mark = self.mark.encode()
        return [pid for pid in pids() if mark in environment_of(pid)]

    def pause(self) -> None:
        """Has every process with the mark stand still."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Has them go on."""
        self.send(signal.SIGCONT)

    def send(self, what: signal.Signals) -> None:
        for pid in self.members():
            send(pid, what)

    def end(self) -> None:
        """Ends every process with the mark."""
        for what in (signal.SIGTERM, signal.SIGKILL):
            patience = time.monotonic() + GRACE_SECONDS
            self.send(what)
            while self.members() and time.monotonic() < patience:
                time.sleep(0.05)


class Memory(threading.Thread):
    """Looks at the memory of a crew until it is asked: the sum of the proportional set sizes, in
    which a page that several processes share counts once."""

    def __init__(self, crew: Crew) -> None:
        super().__init__(daemon=True)
        self.crew = crew
        self.most = 0
        self.over = threading.Event()

    def run(self) -> None:
        is_over = False
        while not is_over:
            begun = time.perf_counter()
            self.most = max(self.most, sum(map(memory_of, self.crew.members())))
            took = time.perf_counter() - begun
            is_over = self.over.wait(max(EVERY_SECONDS, PART * took))

    def end(self) -> int:
        """The most bytes that were seen at once."""
        self.over.set()
        self.join()
        return self.most


def gist(log: str) -> str:
    """Why a program has failed, as far as what it said tells: the last cause that Java names, or
    the last line that is no part of a list of calls."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    others = [line for line in lines if not line.startswith(("at ", "... ", "*", "SHUTDOWN_MSG"))]
    return (causes or others or ["it said nothing"])[-1]


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment_of(pid: int) -> list[bytes]:
    """The variables of a process; none if it has ended, or is somebody else's."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def memory_of(pid: int) -> int:
    """Bytes of a process's proportional set."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            line = next((line for line in file if line.startswith(b"Pss:")), b"Pss: 0 kB")
            return int(line.split()[1]) << 10
    except OSError:
        return 0


def send(pid: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)
