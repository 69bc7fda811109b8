"""The medians of all turns, and which targets are met."""

from collections.abc import Mapping, Sequence
from statistics import median

from harness.target import Target
from net.rows import Entry

# What must be reached: milliseconds that nothing comes, and ratios to Linux.
RESTART_MS = 20.0
REPLACE_MS = 10.0
BULK = 0.5
RTT_SLEEPING, RTT_POLLING = 2.5, 1.5
CONNECTIONS = 0.5
FILTER = 0.9
CALLS = 0.01

# By row and contestant, each of its figures.
Measured = Mapping[tuple[str, str], Mapping[str, float]]


def measured(entries: Sequence[Entry]) -> Measured:
    """The medians of those that have had their turns."""
    return {
        (it.row, it.name): {
            key: median(turn.figures[key] for turn in it.turns) for key in it.turns[0].figures
        }
        for it in entries
        if it.turns and not it.failed
    }


def judge(of: Measured) -> list[Target]:
    """Every target for which there are figures."""
    targets = []

    def most(row: str, name: str, value: float | None, target: float) -> None:
        if value is not None:
            targets.append(Target(row, name, value, f"at most {target:g}", value <= target))

    def least(row: str, name: str, value: float | None, target: float) -> None:
        if value is not None:
            targets.append(Target(row, name, value, f"at least {target:g}", value >= target))

    value = of_one(of, "restart", "p99_ms")
    most("restart", "ms without a byte, in 99% of restarts", value, RESTART_MS)
    value = of_one(of, "replace", "half_ms")
    most("replace", "ms without an answer, in half of them", value, REPLACE_MS)
    for way in ("receives", "sends"):
        value = ratio(of, "bulk", "mbit_s", f"NileOS {way}", f"Linux {way}")
        least("bulk", f"{way}, beside Linux over veth", value, BULK)
    for how, target in (("sleeps", RTT_SLEEPING), ("polls", RTT_POLLING)):
        value = ratio(of, "rtt", "half_us", "NileOS", f"Linux {how}")
        most("rtt", f"beside Linux that {how}", value, target)
    # By the usual time, which others of this machine disturb less than a sum.
    value = ratio(of, "connections", "half_us", "Linux", "NileOS")
    least("connections", "a second, beside Linux", value, CONNECTIONS)
    value = ratio(of, "calls", "per_mb", "NileOS", "Linux")
    most("calls", "of who receives a megabyte, beside Linux", value, CALLS)
    value = ratio(of, "filter", "mbit_s", "NileOS with rules", "NileOS")
    least("filter", "with 1,000 rules, beside none", value, FILTER)
    return targets


def of_one(of: Measured, row: str, figure: str) -> float | None:
    return of.get((row, "NileOS"), {}).get(figure)


def ratio(of: Measured, row: str, figure: str, ours: str, theirs: str) -> float | None:
    """Ours by theirs."""
    pair = [of.get((row, name)) for name in (ours, theirs)]
    if not all(pair):
        return None
    one, other = (it[figure] for it in pair if it)
    return one / other if other else float("inf")
