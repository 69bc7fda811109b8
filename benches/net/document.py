"""The result of a run as one document, from which the text is made."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from statistics import median
from typing import Any

from harness import machine
from harness.page import columns
from harness.page import machine as described
from harness.record import Figure
from harness.target import problems
from net import judge
from net.rows import Entry

UNITS = {
    "ms": "ms",
    "us": "us",
    "mbit_s": "Mbit/s",
    "echoes_s": "1/s",
    "per_second": "1/s",
    "per_mb": "1/MB",
}


def document(
    entries: Sequence[Entry], rounds: int, promised: bool, control: bool
) -> dict[str, Any]:
    """What was measured, and what is wrong with it."""
    figures = judge.measured(entries)
    targets = judge.judge(figures)
    failed = [f"{it.row}, {it.name}: {it.failed}" for it in entries if it.failed]
    return {
        "benchmark": "net",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe() | {"load": round(os.getloadavg()[0], 1)},
        "rounds": rounds,
        "control": control,
        "promised": promised,
        "contestants": [
            {
                "row": it.row,
                "name": it.name,
                "failed": it.failed,
                "turns": [asdict(turn) for turn in it.turns],
                "figures": dict(figures.get((it.row, it.name), {})),
                "cpu_client": median(turn.cpu.client for turn in it.turns) if it.turns else None,
                "cpu_system": median(turn.cpu.system for turn in it.turns) if it.turns else None,
            }
            for it in entries
        ],
        "targets": [asdict(target) for target in targets],
        "problems": failed + problems(targets, promised, control),
    }


def text(result: Mapping[str, Any]) -> str:
    """The whole result for a person."""
    here = result["machine"]
    control = "; CONTROL: the node is hindered on purpose" if result["control"] else ""
    head = f"{result['rounds']} rounds, {result['date']}{control}\n{described(here)}; "
    head += f"load {here['load']}\n\n"
    rows = [["", "", "CPU: client", "other", "medians"], *map(row, result["contestants"])]
    note = "" if result["promised"] else "Not the usual amounts: no promise here.\n"
    return head + columns(rows) + "\n" + verdicts(result) + note


def row(one: Mapping[str, Any]) -> list[str]:
    if one["failed"] or not one["turns"]:
        return [one["row"], one["name"], "", "", f"FAILED: {one['failed'] or 'no turn'}"]
    said = ", ".join(f"{name_of(key)} {value:.4g}" for key, value in one["figures"].items())
    cpu = [f"{one[key]:.2f} s" for key in ("cpu_client", "cpu_system")]
    return [one["row"], one["name"], *cpu, said]


def name_of(key: str) -> str:
    return key.replace("_", " ")


def verdicts(result: Mapping[str, Any]) -> str:
    rows = [["target", "of", "is", "", ""]]
    for it in result["targets"]:
        met = "met" if it["met"] else "MISSED"
        rows.append([it["name"], it["of"], f"{it['value']:.3g}", it["target"], met])
    return columns(rows)


def recorded(result: Mapping[str, Any]) -> dict[str, list[Figure]]:
    """What is kept of a run, by row: the medians of each contestant, and the targets."""
    made: dict[str, list[Figure]] = {}
    for it in result["contestants"]:
        if it["failed"]:
            continue
        of = made.setdefault(it["row"], [])
        for key, value in it["figures"].items():
            unit = next((unit for end, unit in UNITS.items() if key.endswith(end)), "s")
            of.append(Figure(f"{it['name']}: {name_of(key)}", value, unit))
        of.append(Figure(f"{it['name']}: CPU of the client", it["cpu_client"], "s"))
        of.append(Figure(f"{it['name']}: CPU of the other side", it["cpu_system"], "s"))
    for it in result["targets"]:
        missed = "" if it["met"] else "target missed"
        made.setdefault(it["name"], []).append(Figure(it["of"], it["value"], "", missed))
    return made
