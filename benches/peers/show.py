"""The result as text."""

from typing import Any

from harness import page
from harness.page import columns

HEAD = ["", "sort", "all runs", "x NileOS", "first", "command", "start-up", "memory", "x data"]


def text(result: dict[str, Any]) -> str:
    """The whole result: the figures, the targets, how each contestant was set up."""
    rows = [HEAD, *(row(one, result["bytes"]) for one in result["contestants"])]
    parts = [heading(result), columns(rows), explanation(), targets(result), setups(result)]
    return "\n".join(part for part in parts if part)


def heading(result: dict[str, Any]) -> str:
    control = "; CONTROL: NileOS is hindered on purpose" if result["control"] else ""
    return (
        f"{result['records']:,} records of 100 bytes ({result['bytes'] / 1e9:.3g} GB), "
        f"{result['rounds']} rounds, {result['date']}{control}\n"
        f"{page.machine(result['machine'])}\n"
    )


def row(one: dict[str, Any], data: int) -> list[str]:
    if "seconds" not in one:
        why = one["not_run"] or one["failed"] or "no turn"
        status = "not run" if one["not_run"] else "FAILED"
        return [one["title"], f"{status}: {why.splitlines()[0]}"]
    runs = " ".join(f"{turn['sort']['seconds']:.2f}" for turn in one["turns"])
    memory = one["peak_memory_bytes"]
    times = f"{one['times_nileos']:.2f}" if "times_nileos" in one else "-"
    return [
        one["title"],
        f"{one['seconds']:.2f} s",
        runs,
        times,
        f"{one['first_seconds']:.2f} s",
        f"{one['command_seconds']:.2f} s",
        f"{one['start_up_seconds']:.2f} s",
        f"{memory / 2**20:.0f} MiB",
        f"{memory / data:.2f}",
    ]


def explanation() -> str:
    return (
        "\nsort: the job alone, by the contestant's own clock, the median of the runs that count;\n"
        "first: the same where nothing was sorted before, while memory was watched; command: from\n"
        "start to end of the command; start-up: that of a job of 1,000 records; memory: the most\n"
        "that all of a contestant's processes took at once (PSS), node and daemons included.\n"
    )


def targets(result: dict[str, Any]) -> str:
    rows = [["target", "of", "ratio", "", ""]]
    for one in result["targets"]:
        met = "met" if one["met"] else "MISSED"
        rows.append([one["name"], one["of"], f"{one['ratio']:.2f}", one["target"], met])
    note = "" if result["promised"] else "The targets are for 1 GB and more: no promise here.\n"
    return columns(rows) + note


def setups(result: dict[str, Any]) -> str:
    said = ["tuning (benches/harness/tuning.toml)"]
    for one in result["contestants"]:
        said.append(f"  {one['title']} {one.get('version', '')}: {one['what']}")
        said += [f"      {line}" for line in one["tuning"]]
    return "\n".join(said) + "\n"
