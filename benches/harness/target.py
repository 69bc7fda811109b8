"""What a benchmark promises."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One promise: a figure, what it is of, what it has to be, and whether it is."""

    name: str
    of: str
    value: float
    target: str
    met: bool
