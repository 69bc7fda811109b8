"""`python -m linux.plot RESULT FILE`: the histogram of the fixed work quantum as a plot, one guest
below the other: how many quanta took how long, both on logarithmic scales."""

import json
import sys
from pathlib import Path

from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from harness.drawing import OURS, THEIRS, new, save

BIN = 1.02


def main(result: str, file: str) -> None:
    document = json.loads(Path(result).read_text())
    ran = [one for one in document["guests"] if "histogram" in one]
    if not ran:
        return
    shape = {"nrows": len(ran), "sharex": True, "sharey": True, "squeeze": False}
    figure, plots = new(None, **shape, figsize=(8, 0.8 + 1.3 * len(ran)))
    for axes, one in zip(plots[:, 0], ran, strict=True):
        edges = [edge for edge, _ in one["histogram"]]
        counts = [count for _, count in one["histogram"]]
        colour = OURS if one["name"].startswith("nileos") else THEIRS
        axes.bar(edges, counts, [edge * (BIN - 1) for edge in edges], align="edge", color=colour)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
        axes.set_title(one["title"], loc="left", fontsize=10)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    plots[-1, 0].set_xlabel("microseconds that a quantum took")
    figure.supylabel("quanta", fontsize=10)
    save(figure, Path(file))


if __name__ == "__main__":
    main(*sys.argv[1:])
