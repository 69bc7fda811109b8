"""The medians of all turns, the figures of noise, and which targets are met."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from harness.target import Target
from linux.guests import Counts, Noise, Switch, Turn

# A node's time is to be at most so many times that of the fastest Linux.
TIME = 1.0

# A pass of a token between two packages is to take at most so many times the least switch of Linux's
# alone: what `lat_ctx` calls its time, from which the pipes' own is taken off.
SWITCH = 0.5

# So many interrupts a worker may have in a sort, of a node whose workers are promised to have none.
INTERRUPTS = 0.0

# A bin of the histogram ends at so many times where it begins.
BIN = 1.02


@dataclass(frozen=True)
class Quanta:
    """Times of quanta in microseconds. `lost` is the share of all time that went into what is more
    than the least."""

    count: int
    least: float
    median: float
    p99: float
    p999: float
    most: float
    lost: float
    # Interrupts in a second of work.
    interrupts_per_second: float


@dataclass(frozen=True)
class Measured:
    """What came of a guest's turns."""

    seconds: float
    interrupts_per_worker: float
    interruptions_per_worker: float | None
    context_switches: float | None
    page_faults: float | None
    system_calls: float | None
    copied_bytes: float | None
    noise: Quanta | None
    switch: Switch | None


def measured(turns: Sequence[Turn]) -> Measured:
    """What comes of turns, of which there is at least one."""
    counts = [turn.sort.counts for turn in turns]
    noises = [turn.noise for turn in turns if turn.noise]
    return Measured(
        seconds=median(turn.sort.seconds for turn in turns),
        interrupts_per_worker=median(it.interrupts_per_worker for it in counts),
        interruptions_per_worker=known(counts, "interruptions_per_worker"),
        context_switches=known(counts, "context_switches"),
        page_faults=known(counts, "page_faults"),
        system_calls=known(counts, "system_calls"),
        copied_bytes=known(counts, "copied_bytes"),
        noise=quanta(noises) if noises else None,
        switch=switch([turn.switch for turn in turns if turn.switch]),
    )


def switch(switches: Sequence[Switch]) -> Switch | None:
    """The medians of all turns."""
    if not switches:
        return None
    alone = [it.alone for it in switches if it.alone is not None]
    return Switch(median(it.passed for it in switches), median(alone) if alone else None)


def known(counts: Sequence[Counts], name: str) -> float | None:
    """The median of a count; `None` if nobody counts it."""
    values = [getattr(it, name) for it in counts]
    return None if None in values else median(values)


def quanta(noises: Sequence[Noise]) -> Quanta:
    """The quanta of all turns as one."""
    times = sorted(time for noise in noises for time in noise.micros)
    interrupts = sum(sum(noise.interrupts.values()) for noise in noises)
    return Quanta(
        count=len(times),
        least=times[0],
        median=median(times),
        p99=quantile(times, 0.99),
        p999=quantile(times, 0.999),
        most=times[-1],
        lost=1 - times[0] / mean(times),
        interrupts_per_second=interrupts / (sum(times) / 1e6),
    )


def quantile(times: Sequence[float], part: float) -> float:
    """The least of sorted times that so large a part of them does not exceed."""
    return times[min(int(part * len(times)), len(times) - 1)]


def histogram(times: Sequence[float]) -> list[tuple[float, int]]:
    """Where each bin that has something begins, in microseconds, and how many times it has."""
    bins: dict[float, int] = {}
    edge = min(times)
    for time in sorted(times):
        while time >= edge * BIN:
            edge *= BIN
        bins[edge] = bins.get(edge, 0) + 1
    return sorted(bins.items())


def judge(
    ours: Mapping[str, Measured], linux: Mapping[str, Measured], uninterrupted: Collection[str]
) -> list[Target]:
    """Every target for which there is a figure; interrupts are judged of the nodes that are named.
    What is no number meets none."""
    targets = []
    for name, node in ours.items() if linux else ():
        fastest = min(linux, key=lambda name: linux[name].seconds)
        ratio = node.seconds / linux[fastest].seconds
        of = f"{name}'s / that of {fastest}, the fastest"
        targets.append(Target("time", of, ratio, f"at most {TIME:g}", ratio <= TIME))
    switches = [it.switch.alone for it in linux.values() if it.switch and it.switch.alone]
    for name, node in ours.items() if switches else ():
        if node.switch:
            ratio = node.switch.passed / min(switches)
            of = f"{name}'s pass of a token / the least switch of a Linux alone"
            targets.append(Target("switch", of, ratio, f"at most {SWITCH:g}", ratio <= SWITCH))
    for name in filter(ours.__contains__, uninterrupted):
        node = ours[name]
        words = f"at most {INTERRUPTS:g}"
        counted = {
            "interrupts": (node.interrupts_per_worker, "in a sort"),
            "interruptions": (node.interruptions_per_worker, "at work in a sort"),
        }
        for what, (each, when) in counted.items():
            if each is not None:
                of = f"of a worker of {name} {when}"
                targets.append(Target(what, of, each, words, each <= INTERRUPTS))
    return targets
