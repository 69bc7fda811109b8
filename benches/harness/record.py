"""`--record`: the figures of a run become lines of a file in `docs/figures`, which only grows. The
`nile` command says which file, and the first columns: the day, the commit and the machine."""

import csv
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WORDS = ("FILE", "DATE", "COMMIT", "MACHINE", "NOTE")


@dataclass(frozen=True)
class Figure:
    """One line: what was measured, and what is special about it besides the whole run's note."""

    name: str
    value: float
    unit: str
    note: str = ""


def argument(parser: ArgumentParser) -> None:
    """Has a parser take where to record."""
    parser.add_argument("--record", nargs=len(WORDS), metavar=WORDS)


def append(record: Sequence[str] | None, benchmark: str, figures: Sequence[Figure]) -> None:
    """Appends the figures of a benchmark, if that was asked for."""
    if record is None:
        return
    file, *first, whole = record
    with Path(file).open("a", newline="") as opened:
        lines = csv.writer(opened, lineterminator="\n")
        for it in figures:
            note = "; ".join(filter(None, (whole, it.note)))
            lines.writerow([*first, benchmark, it.name, digits(it.value), it.unit, note])


def digits(value: float) -> str:
    """Four digits that matter, and no exponent for what is large."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
