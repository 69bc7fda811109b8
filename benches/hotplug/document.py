"""The result of a run as one document, from which the text is made."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from harness import machine
from harness.page import columns
from harness.page import machine as described
from harness.record import Figure
from harness.target import problems
from hotplug import judge
from hotplug.systems import HINDERED_TIMES, Linux, NileOs, System

# What is shown of each figure, and what its spread is kept of.
SHOWN = ("least", "median", "p90", "p99")
SPREAD = ("create", "destroy", "destroy by force", "core", "memory more", "memory less")


def document(
    ours: NileOs, linux: Linux, runs: int, rounds: int, promised: bool, control: bool
) -> dict[str, Any]:
    """What was measured, and what is wrong with it."""
    targets = judge.judge(ours.times, linux.times)
    failed = [f"{it.name}: {it.failed}" for it in (ours, linux) if it.failed]
    return {
        "benchmark": "hotplug",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe() | {"load": round(os.getloadavg()[0], 1)},
        "runs": runs,
        "rounds": rounds,
        "control": control,
        "promised": promised,
        "linux": linux.release,
        "refused": linux.refused,
        "systems": [
            {
                "name": it.name,
                "failed": it.failed,
                "times_ms": it.times,
                "figures": {name: judge.measured(of) for name, of in it.times.items()},
            }
            for it in (ours, linux)
        ],
        "targets": [asdict(target) for target in targets],
        "problems": failed + problems(targets, promised, control),
    }


def text(result: Mapping[str, Any]) -> str:
    """The whole result for a person."""
    here = result["machine"]
    control = f"; CONTROL: each is done {HINDERED_TIMES} times" if result["control"] else ""
    head = f"{result['runs']} turns of {result['rounds']} rounds, {result['date']}{control}\n"
    head += f"{described(here)}; load {here['load']}\n\n"
    rows = [["ms", "", *SHOWN]]
    for system in result["systems"]:
        for name, figures in system["figures"].items():
            rows.append([system["name"], name, *(f"{figures[it]:.3g}" for it in SHOWN)])
    kept = f"Linux {result['linux']} refused {result['refused']} idle memory blocks.\n"
    note = "" if result["promised"] else "Not the usual amounts: no promise here.\n"
    return head + columns(rows) + "\n" + kept + verdicts(result) + note


def verdicts(result: Mapping[str, Any]) -> str:
    rows = [["target", "of", "is", "", ""]]
    for it in result["targets"]:
        met = "met" if it["met"] else "MISSED"
        rows.append([it["name"], it["of"], f"{it['value']:.3g}", it["target"], met])
    return "\n" + columns(rows)


def recorded(result: Mapping[str, Any]) -> list[Figure]:
    """What is kept of a run: medians and tails of both systems, and the targets."""
    made = []
    for system in result["systems"]:
        for name, figures in system["figures"].items():
            for what in SHOWN:
                made.append(Figure(f"{system['name']}: {name}, {what}", figures[what], "ms"))
    made.append(Figure("Linux: memory blocks refused", result["refused"], ""))
    for it in result["targets"]:
        missed = "" if it["met"] else "target missed"
        unit = "ms" if it["of"] == "ms" else "x"
        made.append(Figure(f"{it['name']}: {it['of']}", it["value"], unit, missed))
    return made


def spread(systems: Sequence[System]) -> list[Figure]:
    """What times were not exceeded in 1% to 100% of the rounds."""
    return [
        Figure(f"{it.name}: {name}, {part}%", judge.percentile(it.times[name], part), "ms")
        for it in systems
        for name in SPREAD
        if name in it.times
        for part in range(1, 101)
    ]
