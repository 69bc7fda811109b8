"""Medians and percentiles of all rounds, and which targets are met."""

from collections.abc import Mapping, Sequence
from statistics import median

from harness.target import Target

# What must be reached: milliseconds, and ratios to the machine's own boot and to Linux's hotplug.
CREATE = 0.5
CORE = 0.1
MOST_MS = {"destroy": 2.0, "destroy by force": 10.0, "memory more": 2.0, "memory less": 2.0}

# What was measured, by name.
Times = Mapping[str, Sequence[float]]


def percentile(values: Sequence[float], part: int) -> float:
    """The least of the values that so many of a hundred do not exceed."""
    ordered = sorted(values)
    return ordered[max(-(-part * len(ordered) // 100), 1) - 1]


def measured(values: Sequence[float]) -> dict[str, float]:
    return {
        "count": len(values),
        "least": min(values),
        "median": median(values),
        "p90": percentile(values, 90),
        "p99": percentile(values, 99),
    }


def judge(ours: Times, linux: Times) -> list[Target]:
    """Every target for which there are figures."""
    targets = []

    def most(name: str, of: str, value: float, target: float) -> None:
        targets.append(Target(name, of, value, f"at most {target:g}", value <= target))

    if {"create", "boot"} <= ours.keys():
        ratio = median(ours["create"]) / median(ours["boot"])
        most("create", "beside the machine's own boot", ratio, CREATE)
    for name, target in MOST_MS.items():
        if name in ours:
            most(name, "ms", median(ours[name]), target)
    if "core" in ours and "core" in linux:
        ratio = median(ours["core"]) / median(linux["core"])
        most("core", "taken and given, beside Linux's offline and online", ratio, CORE)
    return targets
