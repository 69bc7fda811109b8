"""Clusters of hosted nodes, started and used by the command as people do."""

import json
import os
import random
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# How long a command may take, far longer than any here does: one that waits for ever is a fault.
PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Shape:
    """What the nodes of a cluster are like."""

    nodes: int
    workers: int
    pool: int
    buffer: int
    direct: bool
    disks: int = 1

    @staticmethod
    def drawn(dice: random.Random) -> "Shape":
        buffer = dice.choice((4, 8, 32, 64, 256)) << 10
        # As many buffers as workers need to go on, or many times as many.
        pool = max(4 << 20, buffer * dice.choice((130, 300, 1000)))
        pool = min(pool, 96 << 20) // (2 << 20) * (2 << 20)
        return Shape(
            nodes=dice.choice((1, 2, 2, 3, 3)),
            workers=dice.randrange(1, 3),
            pool=pool,
            buffer=buffer,
            direct=dice.random() < 0.3,
        )

    @property
    def parts(self) -> int:
        """The most parts that an output can have."""
        return self.nodes * self.workers


class CommandFailed(Exception):
    """A command that ended with another status than 0, or not in time: what it said."""


class Cluster:
    """A cluster, which ends with this."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.folder = tempfile.TemporaryDirectory(prefix="nile-differential-")
        self.path = Path(self.folder.name)
        self.environment = os.environ | {"XDG_RUNTIME_DIR": str(self.path)}

    def __enter__(self) -> "Cluster":
        config = self.path / "nile.toml"
        config.write_text(f'[pool]\nbytes = "{self.shape.pool}"\nbuffer = "{self.shape.buffer}"\n')
        # A core for the network and the disk, and one that manages.
        words = ["--nodes", self.shape.nodes, "--cores", 2 + self.shape.workers, "--config", config]
        memory = max(128 << 20, 2 * self.shape.pool + (64 << 20))
        words += ["--memory", f"{memory >> 10}K", "--disk", "512M", "--disks", self.shape.disks]
        words += ["--direct"] if self.shape.direct else []
        try:
            self.nile("up", "--machine", "hosted", *words)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(self.words("down"), env=self.environment, capture_output=True, check=False)
        self.folder.cleanup()

    @staticmethod
    def words(*words: object) -> list[str]:
        return [str(ROOT / "nile"), *map(str, words)]

    def nile(self, *words: object) -> bytes:
        """Runs a command; what it prints."""
        try:
            done = subprocess.run(
                self.words(*words),
                env=self.environment,
                capture_output=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            said = (error.stderr or b"").decode(errors="replace")
            raise CommandFailed(f"not over after {PATIENCE_SECONDS} s: {said}") from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace")
            raise CommandFailed(f"status {done.returncode}: {said}")
        return done.stdout

    def datasets(self) -> list[str]:
        return [it["name"] for it in json.loads(self.nile("ls", "--json"))["datasets"]]

    def mend(self, target: str) -> None:
        """Has a node that was killed come back, and waits until all see all others."""
        self.nile("fault", "restart", target)
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            nodes = json.loads(self.nile("status", "--json"))["nodes"]
            if len(nodes) == self.shape.nodes and all(it["state"] == "alive" for it in nodes):
                return
            time.sleep(0.2)
        raise CommandFailed(f"{target} does not come back")


def build() -> None:
    """Builds what the commands need: from then on nothing is looked for."""
    text = ROOT / "LICENSE-MIT"
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_RUNTIME_DIR": folder}
        words = Cluster.words("run", "wordcount", text)
        subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, check=True)
    os.environ["NILE_BUILT"] = "1"


def package(name: str) -> Path:
    """The file of one of the project's packages."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "packages/elf" / f"{name}.elf"
