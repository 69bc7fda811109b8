"""NileOS itself: one hosted node that is up, whose sort job is submitted as any other job is. The
job's own time is from its submission to its end, output written."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness import machine
from harness.data import RECORD, Form, Job
from harness.peer import Peer, Place
from harness.processes import Command, CommandFailed

# How long a node may take to start or to be given its input.
LIMIT_SECONDS = 900

# Bytes of buffers on their way, of kernel and services, and of what else lies on a disk: as `nile
# run` has it. What has no room in memory is put on disk in between.
ON_THE_WAY = 128 << 20
KERNEL = 256 << 20
MARGIN = 256 << 20


class NileOs(Peer):
    """A node as `nile run` starts it for so much data. As the control, its workers are stopped for
    `hindered` seconds in the midst of every sort, and `ballast` bytes more are held."""

    name = "nileos"
    form = Form.BINARY
    copies = True

    def __init__(self, place: Place, hindered: float = 0.0, ballast: int = 0) -> None:
        super().__init__(place)
        self.hindered = hindered
        self.ballast = ballast
        self.nile = place.built / "nile"

    def version(self) -> str:
        said = subprocess.run([self.nile, "--version"], capture_output=True, text=True, check=True)
        root = Path(__file__).parent
        words = ["git", "-C", str(root), "describe", "--always", "--dirty"]
        commit = subprocess.run(words, capture_output=True, text=True)
        return f"{said.stdout.removeprefix('nile ').strip()} {commit.stdout.strip()}".strip()

    def begin(self) -> None:
        jobs = self.place.data.jobs
        data = jobs[0].bytes
        wanted = data + ON_THE_WAY
        pool = min(wanted, (machine.memory() * 4 // 5 - KERNEL) // 2)
        workers = int(self.tuning["workers"])
        roles = f"management = 1\nnetwork = [1]\ndisk = [2]\nworker = {workers}"
        config = self.crew.folder / "node.toml"
        config.write_text(f"[roles]\n{roles}\n")
        node = ["--machine", "hosted", "--nodes", "1", "--cores", str(3 + workers)]
        memory = ["--memory", mebi(2 * pool + KERNEL), "--pool", mebi(pool)]
        disk = ["--disk", mebi(2 * (data + sum(job.bytes for job in jobs)) + MARGIN)]
        self.do("up", *node, *memory, *disk, "--config", config, "--direct", "--unsealed")
        for job in jobs:
            self.do("put", self.input(job), f"{job.name}.in", "--record", str(RECORD))
        if self.ballast:
            hold = f"import signal; held = b'\\1' * {self.ballast}; signal.pause()"
            log = self.crew.folder / "ballast.log"
            self.crew.start(Command(["python3", "-c", hold], {}), log, log)

    def clear(self, job: Job) -> None:
        try:
            self.do("rm", f"{job.name}.out")
        except CommandFailed as error:
            if "no dataset" not in str(error):
                raise

    def sort(self, job: Job) -> Command:
        options = ["--samples", str(self.tuning["samples"]), "--json"]
        options += ["--reducers", str(self.tuning["reducers"])]
        if self.hindered:
            pids = " ".join(str(pid) for pid in self.workers())
            stop = f"kill -STOP {pids}; sleep {self.hindered}; kill -CONT {pids}"
            options += ["--at", f"tera:mapping={stop}"]
        names = ["--input", f"{job.name}.in", "--output", f"{job.name}.out"]
        return self.command("run", self.place.packages / "tera.elf", *names, *options, "sort")

    def output(self, job: Job) -> Sequence[Path]:
        file = self.crew.folder / f"{job.name}.out"
        self.do("get", f"{job.name}.out", file)
        return [file]

    def end(self) -> None:
        try:
            self.do("down")
        finally:
            super().end()

    def workers(self) -> list[int]:
        """The processes that are worker cores."""
        return [pid for pid in self.crew.members() if b"--worker-of-a-node" in command_of(pid)]

    def command(self, *words: str | Path) -> Command:
        # The cluster's sockets, keys and disks lie there.
        environment = {"XDG_RUNTIME_DIR": str(self.crew.folder)}
        return Command([self.nile, *words], environment)

    def do(self, *words: str | Path) -> None:
        self.crew.run(self.command(*words), LIMIT_SECONDS)


def mebi(count: int) -> str:
    """Bytes as a size that the command line takes, in even MiB."""
    return f"{-(-count // (2 << 20)) * 2}M"


def command_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
