"""Plots as SVG files, drawn by matplotlib: run by the Python that has it."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
# The same result gives the same file; text stays text.
matplotlib.rcParams["svg.hashsalt"] = "nile"
matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["font.family"] = "sans-serif"

from matplotlib import pyplot  # noqa: E402

OURS, THEIRS, RUN = "#0b6e99", "#66727a", "#b3bcc2"


def new(title: str | None, **settings: Any) -> tuple[Any, Any]:
    """A figure, with this title if any, and its axes."""
    figure, axes = pyplot.subplots(**settings)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure, axes


def save(figure: Any, file: Path) -> None:
    """Writes a figure."""
    for axes in figure.axes:
        for side in {"top", "right"} & axes.spines.keys():
            axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)
