"""The cluster that is soaked: its commands, which may be killed in their midst, and its
processes."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "differential"))

from cluster import Cluster, Shape  # noqa: E402

NODES = ("n1", "n2", "n3")
BUFFER = 64 << 10
SHAPE = Shape(nodes=len(NODES), workers=1, pool=16 << 20, buffer=BUFFER, direct=False)

# How long a command may take, with nodes that do not answer: several calls, each with its patience.
# A job may have to find out that a node is gone, and that its output has nowhere to go.
PATIENCE_SECONDS = 60
JOB_PATIENCE_SECONDS = 240

MARK = b"NILE_PROCESS_OF="


@dataclass(frozen=True)
class End:
    """How a command ended; of one that was killed `status` is the signal, negative."""

    status: int
    out: bytes
    err: str
    seconds: float
    was_killed: bool

    def __str__(self) -> str:
        said = self.err.strip().splitlines()
        return f"status {self.status}, {self.seconds:.1f} s" + (f": {said[-1]}" if said else "")


class Place(Cluster):
    """Three hosted nodes with disks on a switch."""

    def __init__(self, disks: int) -> None:
        super().__init__(replace(SHAPE, disks=disks))

    def run(
        self,
        *words: object,
        given: bytes | None = None,
        kill: tuple[float, int] | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> End:
        """Runs a command to its end; `kill` is a signal that it gets after so many seconds."""
        begun = time.monotonic()
        pipe = subprocess.PIPE
        child = subprocess.Popen(
            self.words(*words), env=self.environment, stdin=pipe, stdout=pipe, stderr=pipe
        )
        was_killed = False
        try:
            try:
                out, err = child.communicate(given, timeout=kill[0] if kill else patience)
            except subprocess.TimeoutExpired:
                was_killed = kill is not None
                child.send_signal(kill[1] if kill else signal.SIGKILL)
                out, err = child.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
        seconds = time.monotonic() - begun
        return End(child.returncode, out, err.decode(errors="replace"), seconds, was_killed)

    @property
    def home(self) -> Path:
        """The cluster's own folder."""
        return next(self.path.glob("nile-*/*/cluster.json")).parent

    def disks_of(self, node: str) -> list[Path]:
        """The files of a node's disks, the first one first."""
        return sorted(self.home.glob(f"{node}.disk*"))

    def stores(self) -> list[str]:
        """The services that the stores on a node's disks are called by."""
        others = [f"dataset_{number}" for number in range(2, self.shape.disks + 1)]
        return ["dataset", *others]

    def processes(self) -> dict[str, list[int]]:
        """The processes of each node, and of the switch, the first one of each before others."""
        found: dict[str, list[int]] = {}
        for pid in sorted(int(it) for it in os.listdir("/proc") if it.isdigit()):
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            marks = [it for it in environment.split(b"\0") if it.startswith(MARK)]
            part, at, folder = marks[0][len(MARK) :].partition(b"@") if marks else (b"", b"", b"")
            if at and Path(os.fsdecode(folder)).is_relative_to(self.path):
                found.setdefault(part.decode(), []).append(pid)
        return found

    def signal(self, node: str, number: int) -> None:
        """Sends a signal to all processes of a node."""
        for pid in self.processes().get(node, []):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def keep_logs(self) -> Path:
        """Copies what the nodes and the switch have said to where it stays."""
        kept = Path(tempfile.mkdtemp(prefix="nile-soak-kept-"))
        for log in self.home.glob("*.log"):
            shutil.copy(log, kept)
        return kept
