"""What the cluster's processes take, over time: whether that grows without bound."""

import statistics
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from place import NODES, Place

MIB = 1 << 20

# How much more each may be at the end than at the beginning, beside a quarter.
SLACK = {
    "rss": 12 * MIB,
    "pss": 12 * MIB,
    "descriptors": 10,
    "threads": 4,
    "disk": 64 * MIB,
    "log": 8 * MIB,
}
MARGIN = 1.25

# Of a run so much is warming up; what is left has to have so many samples in each quarter.
WARMING = 0.2
SAMPLES = 20


# How often samples are taken.
EVERY_SECONDS = 3


class Meters(threading.Thread):
    """Samples of each node and of the switch."""

    def __init__(self, place: Place) -> None:
        super().__init__(name="meters")
        self.place = place
        self.begun = time.monotonic()
        self.is_over = threading.Event()
        self.taken: dict[tuple[str, str], list[tuple[float, float]]] = {}

    def run(self) -> None:
        while not self.is_over.wait(EVERY_SECONDS):
            self.sample()

    def end(self) -> None:
        self.is_over.set()
        self.join()

    def sample(self) -> None:
        """Takes one of everything that runs."""
        now = time.monotonic() - self.begun
        for part, pids in self.place.processes().items():
            for what, value in looked(self.place.home, part, pids).items():
                self.taken.setdefault((part, what), []).append((now, value))

    def grown(self) -> list[str]:
        """What has grown too much."""
        over = time.monotonic() - self.begun
        return [
            f"{part}: {what} has grown from {shown(what, first)} to {shown(what, last)}"
            for (part, what), first, last in self.quarters(over)
            if has_grown(what, first, last)
        ]

    def quarters(self, over: float) -> Iterable[tuple[tuple[str, str], float, float]]:
        """The first quarter after warming up, and the last one."""
        for key, samples in sorted(self.taken.items()):
            warm = [value for at, value in samples if at > WARMING * over]
            quarter = len(warm) // 4
            if quarter >= SAMPLES:
                yield key, statistics.median(warm[:quarter]), statistics.median(warm[-quarter:])

    def table(self) -> str:
        """All of it, for people."""
        lines = ["              first quarter  last quarter"]
        over = time.monotonic() - self.begun
        for (part, what), first, last in self.quarters(over):
            lines.append(f"{part:7}{what:12}{shown(what, first):>10}{shown(what, last):>13}")
        return "\n".join(lines if len(lines) > 1 else ["too short to judge growth"])


def has_grown(what: str, first: float, last: float) -> bool:
    return last > first * MARGIN + SLACK[what]


def shown(what: str, value: float) -> str:
    return f"{value:.0f}" if what in ("descriptors", "threads") else f"{value / MIB:.1f} MiB"


def looked(home: Path, part: str, pids: list[int]) -> dict[str, float]:
    """What the processes of a node, or of the switch, take together."""
    found: dict[str, float] = dict.fromkeys(("rss", "pss", "descriptors", "threads"), 0)
    try:
        for pid in pids:
            process = Path(f"/proc/{pid}")
            for line in (process / "smaps_rollup").read_text().splitlines():
                name, _, rest = line.partition(":")
                if name in ("Rss", "Pss"):
                    found[name.lower()] += int(rest.split()[0]) << 10
            found["descriptors"] += len(list((process / "fd").iterdir()))
            found["threads"] += len(list((process / "task").iterdir()))
        found["log"] = sum(log.stat().st_size for log in home.glob(f"{part}.log*"))
        if part in NODES:
            disks = home.glob(f"{part}.disk*")
            found["disk"] = sum(disk.stat().st_blocks for disk in disks) * 512
    except OSError:
        # It ends just now.
        return {}
    return found
