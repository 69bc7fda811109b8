"""The result of a run as one document, from which the table, the plot and the page are made."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from harness import machine, tuning
from harness.record import Figure
from stream import judge
from stream.rounds import Entry
from stream.turn import Known, part

# Points of a contestant's curve: for which part of the time it was at most how stale.
POINTS = 200


def document(
    entries: Sequence[Entry],
    edges: Known,
    rate: int,
    rounds: int,
    promised: bool,
    control: bool,
) -> dict[str, Any]:
    """What was measured, beside what was asked for, and what is wrong with it."""
    ran = {it.contestant.name: it for it in entries if it.turns and not it.failed}
    figures = {name: judge.measured(it.turns, edges) for name, it in ran.items()}
    ours = {name: it for name, it in figures.items() if name.startswith("nileos")}
    peers = {name: it for name, it in figures.items() if name not in ours}
    targets = judge.judge(ours, peers, edges)
    failed = [f"{it.contestant.name}: {it.failed}" for it in entries if it.failed]
    return {
        "benchmark": "stream",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe() | {"load": round(os.getloadavg()[0], 1)},
        "vertices": edges.vertices,
        "base": edges.base,
        "new": edges.new,
        "planted": edges.planted,
        "rate": rate,
        "error": entries[0].contestant.place.error,
        "rounds": rounds,
        "control": control,
        "promised": promised,
        "contestants": [contestant(it, figures.get(it.contestant.name)) for it in entries],
        "ratios": judge.ratios(ours),
        "targets": [asdict(target) for target in targets],
        "problems": failed + judge.problems(targets, promised, control),
    }


def contestant(entry: Entry, measured: judge.Measured | None) -> dict[str, Any]:
    table: Mapping[str, Any] = entry.contestant.tuning
    said: dict[str, Any] = {
        "name": entry.contestant.name,
        "title": table["title"],
        "what": table["what"],
        "tuning": tuning.lines(dict(table)),
        "version": entry.contestant.version(),
        "failed": entry.failed,
        # How stale it was at each moment is in the curve.
        "turns": [
            {name: value for name, value in asdict(turn).items() if name != "looks"}
            for turn in entry.turns
        ],
    }
    if measured and not entry.failed:
        looks = [look for turn in entry.turns for look in turn.looks]
        parts = [number / POINTS for number in range(POINTS)]
        said |= asdict(measured) | {"curve": [part(looks, it) for it in parts]}
    return said


def recorded(result: Mapping[str, Any]) -> list[Figure]:
    """What is kept of a run: the medians of each contestant, and the targets."""
    made = []
    for it in result["contestants"]:
        if "curve" in it:
            title = it["title"]
            made.append(Figure(f"{title}: staleness 50%", it["staleness_half"] * 1e3, "ms"))
            made.append(Figure(f"{title}: staleness 99%", it["staleness_99"] * 1e3, "ms"))
            made.append(Figure(f"{title}: planted", it["planted"] * 1e3, "ms"))
            made.append(Figure(f"{title}: ingest", it["ingest"], "edges/s"))
            made.append(Figure(f"{title}: memory", it["bytes"] / 2**20, "MiB"))
    for name, ratio in result["ratios"].items():
        made.append(Figure(f"in parts / in one: {name}", ratio, ""))
    for it in result["targets"]:
        missed = "" if it["met"] else "target missed"
        made.append(Figure(f"{it['name']}: {it['of']}", it["value"], "", missed))
    return made
