"""The result of the experiment as one document, from which the text and the report are made: what
was measured, what the statistics say, and whether it is as it has to be."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from math import exp, log, sqrt
from statistics import fmean, linear_regression, median
from typing import Any

from harness import machine, tuning
from harness.record import Figure
from paper.environments import Contestant
from paper.experiment import Observation

# What the paper reports (section IV): on average Linux with Hadoop took so many times as long.
PAPER_SPEED_UP = 2.34

# The control: the hindered environment takes at least so many times as long as NileOS, and NileOS
# at most so many times as long as itself.
HINDERED_TIMES = 2.0
AGAIN_TIMES = 1.5


def rows(observations: Sequence[Observation]) -> list[dict[str, Any]]:
    """The observations as the analysis takes them."""
    return [
        {
            "environment": it.environment,
            "megabytes": it.bytes / 1e6,
            "reducers": it.reducers,
            "block": it.block,
            "seconds": it.seconds,
        }
        for it in observations
    ]


def cells(observations: Sequence[Observation]) -> list[dict[str, Any]]:
    """Each combination of levels: all its runs, their median, and the medians of its rates."""

    def key(it: Observation) -> tuple[int, int, str]:
        return (it.bytes, it.reducers, it.environment)

    made = []
    for (size, reducers, environment), group in groupby(sorted(observations, key=key), key):
        runs = list(group)
        one: dict[str, Any] = {
            "environment": environment,
            "size": runs[0].size,
            "megabytes": size / 1e6,
            "reducers": reducers,
            "runs": [it.seconds for it in runs],
            "seconds": median(it.seconds for it in runs),
            "command_seconds": median(it.command_seconds for it in runs),
            "reducing_rate": median(size / it.moved.reducing_seconds / 1e6 for it in runs),
        }
        shuffles = [it.moved for it in runs if it.moved.shuffle_seconds]
        if shuffles:
            one["shuffle_rate"] = median(
                (it.shuffle_bytes or 0) / (it.shuffle_seconds or 1) / 1e6 for it in shuffles
            )
        made.append(one)
    return made


def speed_ups(cells: Sequence[Mapping[str, Any]], other: str) -> list[dict[str, Any]]:
    """How many times as long as NileOS another environment takes, cell by cell."""
    seconds = {(it["environment"], it["megabytes"], it["reducers"]): it["seconds"] for it in cells}
    return [
        {
            "size": it["size"],
            "megabytes": it["megabytes"],
            "reducers": it["reducers"],
            "times": it["seconds"] / seconds["nileos", it["megabytes"], it["reducers"]],
        }
        for it in cells
        if it["environment"] == other and ("nileos", it["megabytes"], it["reducers"]) in seconds
    ]


def comparison(cells: Sequence[Mapping[str, Any]], other: str) -> dict[str, Any]:
    """An environment beside NileOS: the average as the paper has it, the geometric mean, and how
    the gain goes with the reducers and with the size."""
    gains = speed_ups(cells, other)
    times = [it["times"] for it in gains]
    return {
        "environment": other,
        "cells": gains,
        "mean": fmean(times),
        "geometric_mean": exp(fmean(map(log, times))),
        "grows_with_reducers": grows(gains, "megabytes", "reducers"),
        "falls_with_size": grows(gains, "reducers", "megabytes", -1),
    }


def grows(gains: Sequence[Mapping[str, Any]], fixed: str, along: str, sign: int = 1) -> list[int]:
    """At how many levels of one factor the gain is more at the last level of the other than at its
    first (less, with the sign -1), of how many."""
    levels = sorted({it[fixed] for it in gains})
    found = []
    for level in levels:
        line = sorted((it for it in gains if it[fixed] == level), key=lambda it: it[along])
        if len(line) > 1:
            found.append(sign * (line[-1]["times"] - line[0]["times"]) > 0)
    return [sum(found), len(found)]


def lines(observations: Sequence[Observation]) -> list[dict[str, Any]]:
    """What a job takes whatever its size, and what each gigabyte takes: each environment's line of
    least squares. Nothing of a single size."""
    made = []
    for name in dict.fromkeys(it.environment for it in observations):
        mine = [it for it in observations if it.environment == name]
        gigabytes = [it.bytes / 1e9 for it in mine]
        if len(set(gigabytes)) > 1:
            slope, at_zero = linear_regression(gigabytes, [it.seconds for it in mine])
            off = (it.seconds - at_zero - slope * x for it, x in zip(mine, gigabytes, strict=True))
            spread = sum((x - fmean(gigabytes)) ** 2 for x in gigabytes)
            error = sqrt(sum(it * it for it in off) / max(len(mine) - 2, 1) / spread)
            line = {"seconds": at_zero, "seconds_per_gigabyte": slope, "standard_error": error}
            made.append({"environment": name, **line})
    return made


def document(
    contestants: Sequence[Contestant],
    observations: Sequence[Observation],
    analysis: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """All of it; `options` is what was asked for."""
    kept = [it for it in contestants if it.takes_part]
    table = cells(observations)
    others = [it.name for it in kept if it.name != "nileos"]
    has_nileos = any(it.name == "nileos" for it in kept)
    comparisons = [comparison(table, name) for name in others] if has_nileos and table else []
    made: dict[str, Any] = {
        "benchmark": "paper",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        **options,
        "environments": [described(it) for it in contestants],
        "observations": [flat(it) for it in observations],
        "cells": table,
        "comparisons": comparisons,
        "lines": lines(observations),
        "analysis": analysis,
        "paper_speed_up": PAPER_SPEED_UP,
    }
    failed = [f"{it.title}: {it.failed}" for it in contestants if it.failed]
    return made | {"problems": failed + judge(made)}


def described(one: Contestant) -> dict[str, Any]:
    table = one.peer.tuning
    said: dict[str, Any] = {
        "name": one.name,
        "title": one.title,
        "what": table["what"],
        "tuning": tuning.lines(table),
        "not_run": one.not_run,
        "failed": one.failed,
    }
    if one.not_run is None:
        said["version"] = one.peer.version()
    return said


def flat(it: Observation) -> dict[str, Any]:
    values = asdict(it)
    moved = values.pop("moved")
    return {**values, **moved}


def judge(made: Mapping[str, Any]) -> list[str]:
    """What is not as it has to be. The control has to show that the experiment tells a worse
    environment from the same one; otherwise Hadoop takes as many times as long as in the paper."""
    found = {it["environment"]: it for it in made["comparisons"]}
    if made["analysis"] is None:
        return ["there are too few runs for an analysis"]
    if made["control"]:
        return judge_control(found, made["analysis"])
    hadoop = found.get("hadoop")
    if hadoop and hadoop["mean"] < PAPER_SPEED_UP:
        mean = hadoop["mean"]
        return [f"missed: Hadoop takes {mean:.2f} × as long, and {PAPER_SPEED_UP} × in the paper"]
    return []


def judge_control(found: Mapping[str, Any], analysis: Mapping[str, Any]) -> list[str]:
    if not {"nileos-again", "nileos-hindered"} <= found.keys():
        return ["the control lacks an environment"]
    again, hindered = (found[f"nileos-{it}"]["geometric_mean"] for it in ("again", "hindered"))
    problems = []
    if hindered < HINDERED_TIMES:
        problems.append(f"the control takes {hindered:.2f} × as long, not {HINDERED_TIMES} ×")
    if not 1 / AGAIN_TIMES < again < AGAIN_TIMES:
        problems.append(f"NileOS takes {again:.2f} × as long as itself")
    if not effect(analysis, "environment")["is_significant"]:
        problems.append("the analysis finds no effect of what hinders NileOS")
    return problems


def effect(analysis: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A row of the table of the scale that counts."""
    rows: list[dict[str, Any]] = analysis["scales"][analysis["scale"]]["effects"]
    return next(it for it in rows if it["effect"] == name)


def recorded(made: Mapping[str, Any]) -> list[Figure]:
    """What is kept of a run: each environment beside NileOS, what a gigabyte takes, and what the
    statistics say of it."""
    titles = {it["name"]: it["title"] for it in made["environments"]}
    kept = []
    for it in made["comparisons"]:
        of = f"{titles[it['environment']]} / NileOS"
        kept.append(Figure(f"{of}, average", it["mean"], "x"))
        kept.append(Figure(f"{of}, geometric mean", it["geometric_mean"], "x"))
    for it in made["lines"]:
        title = titles[it["environment"]]
        kept.append(Figure(f"{title}, a further GB", it["seconds_per_gigabyte"], "s"))
    if analysis := made["analysis"]:
        scale = analysis["scales"][analysis["scale"]]
        kept += [Figure(f"{it['effect']}, p", it["p"], "") for it in scale["effects"]]
        kept.append(Figure("R2", scale["regression"]["r_squared"], ""))
    return kept
