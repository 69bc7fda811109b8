"""`python -m peers.jobs.plot RESULT FOLDER`: the result of a run as plots, `time.svg`,
`start-up.svg`, `memory.svg`. A diamond is the median or the most, with its figure; the dots are all
runs."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from harness.drawing import OURS, RUN, THEIRS, new, save


def plot(
    file: Path,
    title: str,
    unit: str,
    contestants: list[dict],
    value: Callable[[dict], float],
    runs: Callable[[dict], float],
) -> None:
    """One line for each contestant, on a logarithmic scale: some are a hundred times others."""
    contestants = sorted(contestants, key=value, reverse=True)
    values = [value(one) for one in contestants]
    figure, axes = new(title, figsize=(8, 0.9 + 0.42 * len(contestants)))
    for place, (one, figure_of) in enumerate(zip(contestants, values, strict=True)):
        colour = OURS if one["name"] == "nileos" else THEIRS
        dots = [runs(turn) for turn in one["turns"]]
        axes.axhline(place, color="#e4e7e9", linewidth=1, zorder=0)
        axes.plot(dots, [place] * len(dots), "o", color=RUN, markersize=4, zorder=1)
        axes.plot([figure_of], [place], "D", color=colour, markersize=8, zorder=2)
        axes.annotate(
            f"{figure_of:.3g}",
            (max(figure_of, *dots), place),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set_yticks(range(len(contestants)), [one["title"] for one in contestants])
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(min(values) / 2, max(values) * 3)
    axes.set_xlabel(unit)
    save(figure, file)


def main(result: str, folder: str) -> None:
    document = json.loads(Path(result).read_text())
    ran = [one for one in document["contestants"] if "seconds" in one]
    size = f"{document['bytes'] / 1e9:.3g} GB"
    if not ran:
        return
    plot(
        Path(folder) / "time.svg",
        f"Sorting {size}: the job alone",
        "seconds, logarithmic",
        ran,
        lambda one: one["seconds"],
        lambda turn: turn["sort"]["seconds"],
    )
    plot(
        Path(folder) / "start-up.svg",
        "A job of 1,000 records, its command from start to end",
        "seconds, logarithmic",
        ran,
        lambda one: one["start_up_seconds"],
        lambda turn: turn["start_up"]["command_seconds"],
    )
    plot(
        Path(folder) / "memory.svg",
        f"The most memory while sorting {size}",
        "MiB, logarithmic",
        ran,
        lambda one: one["peak_memory_bytes"] / 2**20,
        lambda turn: turn["peak_memory_bytes"] / 2**20,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
