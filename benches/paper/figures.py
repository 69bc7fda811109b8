"""`python -m paper.figures RESULT FOLDER`: the figures of the paper's section IV, of this run."""

import json
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy
from matplotlib import pyplot
from matplotlib.ticker import FormatStrFormatter, NullFormatter

from harness.drawing import OURS, RUN, new, save
from paper.findings import rate, readable

COLOURS = {"nileos": OURS, "linux": "#b36b00", "hadoop": "#66727a"}
OTHERS = ["#7a4f9e", "#b00020"]
FACTORS = ("environment", "megabytes", "reducers")


class Figures:
    """A result and where its figures go."""

    def __init__(self, result: dict[str, Any], folder: Path) -> None:
        self.result = result
        self.folder = folder
        self.cells = result["cells"]
        ran = {it["environment"] for it in self.cells}
        self.titles = {
            it["name"]: it["title"] for it in result["environments"] if it["name"] in ran
        }
        spare = iter(OTHERS)
        self.colours = {name: COLOURS.get(name) or next(spare) for name in self.titles}
        self.levels = {name: sorted({it[name] for it in self.cells}) for name in FACTORS[1:]}
        self.levels["environment"] = list(self.titles)

    def mean(self, **levels: Any) -> float:
        """The geometric mean of all runs at these levels."""
        cells = [it for it in self.cells if all(it[name] == is_ for name, is_ in levels.items())]
        return geometric_mean([run for it in cells for run in it["runs"]])

    def runtime(self) -> None:
        sizes, reducers = (self.levels[name] for name in FACTORS[1:])
        wide = (max(8, 3.2 * len(reducers)), 3.6)
        figure, axes = new(None, ncols=len(reducers), figsize=wide, sharey=True, squeeze=False)
        for count, plot in zip(reducers, axes.flat, strict=True):
            for name, title in self.titles.items():
                mine = [
                    it for it in self.cells if (it["environment"], it["reducers"]) == (name, count)
                ]
                points = [(it["megabytes"], run) for it in mine for run in it["runs"]]
                plot.plot(*zip(*points, strict=True), "o", color=RUN, markersize=4)
                line = [(it["megabytes"], it["seconds"]) for it in mine]
                plot.plot(*zip(*line, strict=True), "o-", color=self.colours[name], label=title)
            logarithmic(plot, sizes)
            plot.set_xlabel(f"MB, {count} reducer{'s' if count > 1 else ''}")
        axes.flat[0].set_ylabel("seconds")
        axes.flat[0].legend(frameon=False, fontsize=8)
        save(figure, self.folder / "runtime.svg")

    def speed_up(self) -> None:
        others = self.result["comparisons"]
        if not others:
            return
        figure, axes = new(
            None, ncols=len(others), figsize=(max(8, 4 * len(others)), 3.6), squeeze=False
        )
        for other, plot in zip(others, axes.flat, strict=True):
            reducers = self.levels["reducers"]
            for place, count in enumerate(reducers):
                mine = [it for it in other["cells"] if it["reducers"] == count]
                width = 0.8 / len(reducers)
                where = [at + place * width for at in range(len(mine))]
                label = f"{count} reducer{'s' if count > 1 else ''}"
                plot.bar(where, [it["times"] for it in mine], width * 0.92, label=label)
            names = [it["size"] for it in mine]
            plot.set_xticks([at + 0.4 - width / 2 for at in range(len(mine))], names)
            plot.axhline(1, color="black", linewidth=0.8)
            if other["environment"] == "hadoop":
                paper = self.result["paper_speed_up"]
                label = f"the paper's average: {paper} ×"
                plot.axhline(paper, color="#b00020", linewidth=1, linestyle="--", label=label)
            plot.set_ylabel(f"{self.titles[other['environment']]}: times NileOS")
            # Room for the legend.
            plot.set_ylim(0, 1.35 * plot.get_ylim()[1])
            plot.legend(frameon=False, fontsize=8)
        save(figure, self.folder / "speed-up.svg")

    def shuffle(self) -> None:
        figure, plot = new(None, figsize=(8, 3.6))
        levels = self.levels["reducers"]
        for name, title in self.titles.items():
            for key, what, style in (
                ("reducing_rate", "mappers' end to output", "o-"),
                ("shuffle_rate", "its shuffle alone", "o--"),
            ):
                if any(key in it for it in self.cells if it["environment"] == name):
                    values = [rate(self.result, name, level, key) for level in levels]
                    colour = self.colours[name]
                    plot.plot(levels, values, style, color=colour, label=f"{title}, {what}")
        plot.set_yscale("log")
        plain(plot.yaxis)
        plot.set_xticks(levels)
        plot.set_xlabel("reducers")
        plot.set_ylabel("MB/s")
        plot.legend(frameon=False, fontsize=8)
        save(figure, self.folder / "shuffle.svg")

    def q_q(self) -> None:
        scales = self.result["analysis"]["scales"]
        figure, axes = new(None, ncols=len(scales), figsize=(8, 3.8), squeeze=False)
        for (name, scale), plot in zip(scales.items(), axes.flat, strict=True):
            points = scale["normality"]["q_q"]
            ends = [points[0][0], points[-1][0]]
            plot.plot(ends, ends, color=RUN)
            plot.plot(*zip(*points, strict=True), "o", color=OURS, markersize=4)
            plot.set_title(f"of the {name}", fontsize=9)
            plot.set_xlabel("normal quantiles")
        axes.flat[0].set_ylabel("studentized residuals")
        save(figure, self.folder / "q-q.svg")

    def mean_squares(self) -> None:
        scales = self.result["analysis"]["scales"]
        figure, axes = new(None, ncols=len(scales), figsize=(10, 3.8), squeeze=False)
        for (name, scale), plot in zip(scales.items(), axes.flat, strict=True):
            effects = scale["effects"]
            wedges, _ = plot.pie([it["share"] for it in effects], startangle=90, counterclock=False)
            labels = [f"{readable(it['effect'])} {it['share']:.1%}" for it in effects]
            plot.legend(
                wedges,
                labels,
                frameon=False,
                fontsize=7,
                loc="center left",
                bbox_to_anchor=(1, 0.5),
            )
            plot.set_title(f"of the {name}", fontsize=9)
        save(figure, self.folder / "mean-squares.svg")

    def interactions(self) -> None:
        """Each pair of factors: means at the levels of one, a line for each level of the other."""
        pairs = (
            ("megabytes", "environment"),
            ("reducers", "environment"),
            ("reducers", "megabytes"),
        )
        figure, axes = new(None, ncols=len(pairs), figsize=(11, 3.6), squeeze=False)
        for (along, by), plot in zip(pairs, axes.flat, strict=True):
            for level in self.levels[by]:
                values = [self.mean(**{along: at, by: level}) for at in self.levels[along]]
                is_name = by == "environment"
                label = self.titles[level] if is_name else f"{level:.0f} MB"
                colour = self.colours[level] if is_name else None
                plot.plot(self.levels[along], values, "o-", label=label, color=colour)
            logarithmic(plot, self.levels[along])
            plot.set_xlabel("MB" if along == "megabytes" else along)
            plot.legend(frameon=False, fontsize=8)
        axes.flat[0].set_ylabel("seconds, geometric mean")
        save(figure, self.folder / "interactions.svg")

    def surfaces(self) -> None:
        sizes, reducers = (self.levels[name] for name in FACTORS[1:])
        if len(sizes) < 2 or len(reducers) < 2:
            return
        figure = pyplot.figure(figsize=(3.6 * len(self.titles), 3.6))
        for place, (name, title) in enumerate(self.titles.items()):
            plot = figure.add_subplot(1, len(self.titles), place + 1, projection="3d")
            seconds = {
                (it["megabytes"], it["reducers"]): it["seconds"]
                for it in self.cells
                if it["environment"] == name
            }
            across = [[float(count) for count in reducers] for _ in sizes]
            along = [[size] * len(reducers) for size in sizes]
            height = [[seconds[size, count] for count in reducers] for size in sizes]
            grids = map(numpy.array, (across, along, height))
            plot.plot_surface(*grids, color=self.colours[name], alpha=0.6, edgecolor="black")
            plot.set_xticks(reducers)
            plot.set_xlabel("reducers")
            plot.set_ylabel("MB")
            plot.set_title(f"{title}, seconds", fontsize=9)
        save(figure, self.folder / "surfaces.svg")


def logarithmic(plot: Any, ticks: list[float]) -> None:
    plot.set_xscale("log")
    plot.set_yscale("log")
    plot.set_xticks(ticks, [f"{tick:.0f}" for tick in ticks])
    plot.xaxis.set_minor_formatter(NullFormatter())
    plain(plot.yaxis)


def plain(axis: Any) -> None:
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


def main(source: str, folder: str) -> None:
    figures = Figures(json.loads(Path(source).read_text()), Path(folder))
    if not figures.cells:
        return
    figures.runtime()
    figures.speed_up()
    figures.shuffle()
    figures.interactions()
    figures.surfaces()
    if figures.result["analysis"]:
        figures.q_q()
        figures.mean_squares()


if __name__ == "__main__":
    main(*sys.argv[1:])
