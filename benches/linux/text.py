"""The result as text."""

from typing import Any

from harness.page import columns, machine

SORT = ["", "sort", "all runs", "x NileOS", "interrupts", "at work", "switches", "faults", "calls"]
SORT += ["copied"]
NOISE = ["", "least", "median", "99 %", "99.9 %", "most", "lost", "interrupts/s"]

SWITCH = ["", "a pass", "the switch alone"]

UNKNOWN = "unknown"

# How many machines share a sort.
MACHINES = {1: "", 2: " shared by two machines on a virtual switch"}


def text(result: dict[str, Any]) -> str:
    """The whole result: the figures, the targets, how each guest was set up."""
    parts = [
        heading(result),
        columns([SORT, *map(sort_row, result["guests"])]),
        sort_explanation(),
        *noise(result),
        *switch(result),
        targets(result),
        setups(result),
    ]
    return "\n".join(parts)


def noise(result: dict[str, Any]) -> list[str]:
    """The quanta, if any were measured."""
    rows = [noise_row(one) for one in with_noise(result)]
    return [columns([NOISE, *rows]), noise_explanation()] if rows else []


def switch(result: dict[str, Any]) -> list[str]:
    """The switches, if any were measured."""
    rows = [switch_row(one) for one in with_switch(result)]
    return [columns([SWITCH, *rows]), switch_explanation()] if rows else []


def with_switch(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in result["guests"] if one.get("switch")]


def switch_row(one: dict[str, Any]) -> list[str]:
    passed, alone = one["switch"]["passed"], one["switch"]["alone"]
    least = UNKNOWN if alone is None else f"{alone:.2f} us"
    return [one["title"], f"{passed:.2f} us", least]


def switch_explanation() -> str:
    return (
        "A token between two packages of one core by their channels, and between two processes of\n"
        "one CPU by pipes, as lmbench's lat_ctx has it: a pass is a message, waking, waiting and\n"
        "the switch; the switch alone is that without what the same pipes take in one process.\n"
    )


def with_noise(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in result["guests"] if one.get("noise")]


def heading(result: dict[str, Any]) -> str:
    here = result["machine"]
    control = "; CONTROL: NileOS is hindered on purpose" if result["control"] else ""
    return (
        f"{result['records']:,} records of 100 bytes ({result['bytes'] / 1e6:.0f} MB)"
        f"{MACHINES[result['nodes']]}, {result['rounds']} rounds, {result['date']}{control}\n"
        f"QEMU on {machine(here)}; load {here['load']}\n"
    )


def sort_row(one: dict[str, Any]) -> list[str]:
    if "seconds" not in one:
        why = one["failed"] or "no turn"
        return [one["title"], f"FAILED: {why.splitlines()[0]}"]
    copied = one["copied_bytes"]
    return [
        one["title"],
        f"{one['seconds']:.2f} s",
        " ".join(f"{turn['sort']['seconds']:.2f}" for turn in one["turns"]),
        f"{one['times_nileos']:.2f}" if "times_nileos" in one else "-",
        f"{one['interrupts_per_worker']:g}",
        count(one["interruptions_per_worker"]),
        count(one["context_switches"]),
        count(one["page_faults"]),
        count(one["system_calls"]),
        UNKNOWN if copied is None else f"{copied / 1e6:.0f} MB",
    ]


def count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:g}"


def noise_row(one: dict[str, Any]) -> list[str]:
    noise = one["noise"]
    times = [f"{noise[name]:.0f} us" for name in ("least", "median", "p99", "p999", "most")]
    return [
        one["title"],
        *times,
        f"{100 * noise['lost']:.1f} %",
        f"{noise['interrupts_per_second']:.2f}",
    ]


def sort_explanation() -> str:
    return (
        "sort: by the guest's clock, on NileOS from the job's submission to its end;\n"
        "interrupts: of a core that sorts, all causes, on NileOS in the whole job; at work: those\n"
        "of them that came while it did not sleep; switches: between threads, of all cores;\n"
        "faults: of pages, handled or not; calls: of the program to the kernel, on the cores that\n"
        "sort; copied: by the kernel, from or to the program's memory. Medians.\n"
        f"{UNKNOWN}: nothing in that guest counts it.\n"
    )


def noise_explanation() -> str:
    return (
        "The fixed work quantum on a core that sorts: times of the same work, again and again, of\n"
        "all rounds; lost: the share of time beyond the least; interrupts of that core, on NileOS\n"
        "those of loading and ending the job included.\n"
    )


def targets(result: dict[str, Any]) -> str:
    rows = [["target", "of", "is", "", ""]]
    for one in result["targets"]:
        met = "met" if one["met"] else "MISSED"
        rows.append([one["name"], one["of"], f"{one['value']:.2f}", one["target"], met])
    note = "" if result["promised"] else "A quick run: no promise here.\n"
    return columns(rows) + note


def setups(result: dict[str, Any]) -> str:
    said = ["tuning (benches/linux/tuning.toml)", f"  memory = {result['memory']}"]
    said += [f"  {line}" for line in result["tuning"]]
    for one in result["guests"]:
        said.append(f"  {one['title']} {one['version']}: {one['what']}")
        said += [f"      {line}" for line in one["tuning"]]
        if one["stood_still"]:
            still = one["stood_still"]
            said.append(f"      machines that stood still, and were started again: {still}")
        causes = [turn["sort"]["counts"]["interrupts"] for turn in one["turns"]]
        if causes:
            said.append(
                f"      interrupts of the cores that sort, last turn: {by_cause(causes[-1])}"
            )
    return "\n".join(said) + "\n"


def by_cause(causes: dict[str, list[int]]) -> str:
    said = [f"{cause} {'+'.join(map(str, counts))}" for cause, counts in causes.items()]
    return ", ".join(said) or "none"
