"""The result of a run as one document, from which the table, the plot and the page are made."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from harness import machine
from harness import tuning
from harness.record import Figure
from harness.target import problems
from linux import judge
from linux.guests import Task
from linux.turns import Entry


def document(
    nodes: Sequence[Entry],
    linux: Sequence[Entry],
    task: Task,
    tables: Mapping[str, Any],
    rounds: int,
    promised: bool,
    control: bool,
) -> dict[str, Any]:
    """What was measured, beside what was asked for, and what is wrong with it. The first node is
    what others' times are shown beside."""
    entries = [*nodes, *linux]
    ours, theirs = figures(nodes), figures(linux)
    mine = ours.get(nodes[0].guest.name)
    uninterrupted = [it.guest.name for it in nodes if it.guest.tuning.get("uninterrupted")]
    targets = judge.judge(ours, theirs, uninterrupted)
    failed = [f"{it.guest.name}: {it.failed}" for it in entries if it.failed]
    common = {name: tables[name] for name in ("machine", "sort", "fwq", "switch")}
    return {
        "benchmark": "linux",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe() | {"load": round(os.getloadavg()[0], 1)},
        "nodes": nodes[0].guest.place.nodes,
        "records": task.records,
        "bytes": task.bytes,
        "memory": nodes[0].guest.memory(task),
        "rounds": rounds,
        "control": control,
        "promised": promised,
        "tuning": tuning.lines(common),
        "guests": [guest(entry, mine) for entry in entries],
        "targets": [asdict(target) for target in targets],
        "problems": failed + problems(targets, promised, control),
    }


def figures(entries: Sequence[Entry]) -> dict[str, judge.Measured]:
    """What came of those that took all their turns."""
    ran = [entry for entry in entries if entry.turns and not entry.failed]
    return {entry.guest.name: judge.measured(entry.turns) for entry in ran}


def guest(entry: Entry, ours: judge.Measured | None) -> dict[str, Any]:
    table = entry.guest.tuning
    said: dict[str, Any] = {
        "name": entry.guest.name,
        "title": table["title"],
        "what": table["what"],
        "tuning": tuning.lines(table),
        "version": entry.guest.version(),
        "stood_still": entry.stood_still,
        "failed": entry.failed,
        # The times of quanta are in the histogram.
        "turns": [
            {"sort": asdict(turn.sort)}
            | ({"noise_interrupts": turn.noise.interrupts} if turn.noise else {})
            | ({"switch": asdict(turn.switch)} if turn.switch else {})
            for turn in entry.turns
        ],
    }
    if entry.turns and not entry.failed:
        mine = judge.measured(entry.turns)
        said |= asdict(mine)
        times = [time for turn in entry.turns if turn.noise for time in turn.noise.micros]
        if times:
            said["histogram"] = judge.histogram(times)
        if ours:
            said["times_nileos"] = mine.seconds / ours.seconds
    return said


def recorded(result: Mapping[str, Any]) -> list[Figure]:
    """What is kept of a run: the medians of each guest, and the targets."""
    made = []
    for it in result["guests"]:
        if "seconds" in it:
            each = it["interrupts_per_worker"]
            made.append(Figure(f"{it['title']}: sort", it["seconds"], "s"))
            made.append(Figure(f"{it['title']}: interrupts of a worker", each, ""))
            if it["noise"]:
                quantum = it["noise"]["p999"] / 1000
                made.append(Figure(f"{it['title']}: quantum 99.9%", quantum, "ms"))
            if it["switch"]:
                made.append(Figure(f"{it['title']}: token", it["switch"]["passed"], "us"))
    for it in result["targets"]:
        missed = "" if it["met"] else "target missed"
        made.append(Figure(f"{it['name']}: {it['of']}", it["value"], "", missed))
    return made
