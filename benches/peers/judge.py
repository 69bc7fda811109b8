"""What the measured times and memory are against NileOS's, and which targets that meets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from peers.rounds import Turn

# The amount of data that the targets are for, in bytes: about a gigabyte or more.
JUDGED_FROM = 950_000_000

# A contestant's time has to be at least so many times NileOS's.
TIMES = {
    "hadoop-yarn": 50.0,
    "hadoop-local": 25.0,
    "spark": 40.0,
    "gnu-sort": 10.0,
    "duckdb": 5.0,
    "polars": 5.0,
}

# NileOS's time is to be at most so many times that of the reference.
REFERENCE = 1.15

# NileOS's memory is to be at most so many times the data, and no more than any contestant's.
MEMORY = 1.5


@dataclass(frozen=True)
class Measured:
    """The medians of a contestant's turns, and the most memory of all."""

    seconds: float
    first_seconds: float
    command_seconds: float
    start_up_seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True)
class Target:
    """One promise: a ratio, what it is of, what it has to be, and whether it is."""

    name: str
    of: str
    ratio: float
    target: str
    met: bool
    # Whether the control is made to miss it.
    controlled: bool


def measured(turns: Sequence[Turn]) -> Measured:
    """What comes of a contestant's turns, of which there is at least one."""
    return Measured(
        median(turn.sort.seconds for turn in turns),
        median(turn.first.seconds for turn in turns),
        median(turn.sort.command_seconds for turn in turns),
        median(turn.start_up.command_seconds for turn in turns),
        max(turn.peak_memory_bytes for turn in turns),
    )


def judge(ours: Measured, peers: Mapping[str, Measured], data: int) -> list[Target]:
    """Every target for which there is a figure. A ratio that is no number meets none."""
    targets = []
    for name, peer in peers.items():
        if name in TIMES:
            ratio = peer.seconds / ours.seconds
            met, words = ratio >= TIMES[name], f"at least {TIMES[name]:g}"
            targets.append(Target(name, "its time / NileOS's", ratio, words, met, True))
        elif name == "reference":
            ratio = ours.seconds / peer.seconds
            met, words = ratio <= REFERENCE, f"at most {REFERENCE:g}"
            targets.append(Target(name, "NileOS's time / its", ratio, words, met, True))
    ratio = ours.peak_memory_bytes / data
    words = f"at most {MEMORY:g}"
    targets.append(Target("memory", "NileOS's / the data", ratio, words, ratio <= MEMORY, True))
    for name, peer in peers.items():
        if peer.peak_memory_bytes == 0:
            # It was gone before anybody looked.
            continue
        ratio = ours.peak_memory_bytes / peer.peak_memory_bytes
        of = f"NileOS's / {name}'s"
        targets.append(Target("memory", of, ratio, "at most 1", ratio <= 1, False))
    return targets


def problems(targets: list[Target], data: int, control: bool) -> list[str]:
    """Why the run as a whole has failed, as far as targets go. A control has to miss all that it is
    made to miss, whatever the size; others have to be met where they are promised."""
    if control:
        met = [target for target in targets if target.met and target.controlled]
        return [f"the control met a target: {it.name}, {it.ratio:.2f} ({it.target})" for it in met]
    if data < JUDGED_FROM:
        return []
    missed = [target for target in targets if not target.met]
    return [f"missed: {it.name}, {it.of} is {it.ratio:.2f} ({it.target})" for it in missed]
