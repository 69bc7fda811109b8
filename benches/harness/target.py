"""What a benchmark promises."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One promise: a figure, what it is of, what it has to be, and whether it is."""

    name: str
    of: str
    value: float
    target: str
    met: bool


def problems(targets: Sequence[Target], promised: bool, control: bool) -> list[str]:
    """Why the run as a whole has failed, as far as targets go. A control has to miss them all;
    others have to be met where they are promised."""
    if control:
        why, wrong = "the control met a target", [it for it in targets if it.met]
    else:
        why, wrong = "missed", [it for it in targets if promised and not it.met]
    return [f"{why}: {it.name}, {it.of} is {it.value:.3g} ({it.target})" for it in wrong]
