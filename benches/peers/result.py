"""The result of a run as one document, from which the table, the plots and the report are made."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from harness import machine, tuning
from harness.data import RECORD
from harness.record import Figure
from peers import judge
from peers.rounds import Entry


def document(
    ours: Entry, peers: Sequence[Entry], records: int, rounds: int, control: bool
) -> dict[str, Any]:
    """What was measured, beside what was asked for, and what is wrong with it."""
    entries = [ours, *peers]
    ran = [entry for entry in entries if entry.turns and not entry.failed]
    figures = {entry.peer.name: judge.measured(entry.turns) for entry in ran}
    mine = figures.pop(ours.peer.name, None)
    data = records * RECORD
    targets = judge.judge(mine, figures, data) if mine else []
    failed = [f"{it.peer.name}: {it.failed}" for it in entries if it.failed]
    return {
        "benchmark": "peers",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "records": records,
        "bytes": data,
        "rounds": rounds,
        "control": control,
        "promised": data >= judge.JUDGED_FROM,
        "contestants": [contestant(entry, mine) for entry in entries],
        "targets": [asdict(target) for target in targets],
        "problems": failed + judge.problems(targets, data, control),
    }


def contestant(entry: Entry, ours: judge.Measured | None) -> dict[str, Any]:
    table = entry.peer.tuning
    said: dict[str, Any] = {
        "name": entry.peer.name,
        "title": table["title"],
        "what": table["what"],
        "tuning": tuning.lines(table),
        "not_run": entry.not_run,
        "failed": entry.failed,
        "turns": [asdict(turn) for turn in entry.turns],
    }
    if entry.not_run is None:
        said["version"] = entry.peer.version()
    if entry.turns and not entry.failed:
        figures = judge.measured(entry.turns)
        said |= asdict(figures)
        if ours:
            said["times_nileos"] = figures.seconds / ours.seconds
    return said


def recorded(result: dict[str, Any]) -> list[Figure]:
    """What is kept of a run: each time, the memory, and the ratios that have targets."""
    made = []
    for it in result["contestants"]:
        if "seconds" in it:
            times = [turn["sort"]["seconds"] for turn in it["turns"]]
            made += [Figure(it["title"], seconds, "s") for seconds in times]
            memory = it["peak_memory_bytes"] / result["bytes"]
            made.append(Figure(f"{it['title']} memory", memory, "x the data"))
    for it in result["targets"]:
        missed = "" if it["met"] else "target missed"
        made.append(Figure(f"{it['name']}: {it['of']}", it["ratio"], "x", missed))
    return made
