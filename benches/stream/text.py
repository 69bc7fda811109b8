"""The result as text."""

from typing import Any

from harness.page import columns, machine

HEAD = ["", "half", "99%", "most", "planted", "ingest", "publications", "memory"]


def text(result: dict[str, Any]) -> str:
    """The whole result: the figures, the targets, how each contestant was set up."""
    rows = [HEAD, *map(row, result["contestants"])]
    return "\n".join(
        [
            heading(result),
            columns(rows),
            explanation() + ratios(result),
            targets(result),
            setups(result),
        ]
    )


def heading(result: dict[str, Any]) -> str:
    here = result["machine"]
    control = "; CONTROL: NileOS is hindered on purpose" if result["control"] else ""
    return (
        f"{result['vertices']:,} vertices, {result['base']:,} edges, then "
        f"{result['new'] + result['planted']:,} more at {result['rate']:,} a second; errors of all "
        f"ranks {result['error']:g} at most\n"
        f"{result['rounds']} rounds, {result['date']}{control}\n"
        f"{machine(here)}; load {here['load']}\n"
    )


def row(one: dict[str, Any]) -> list[str]:
    if "curve" not in one:
        why = one["failed"] or "no turn"
        return [one["title"], f"FAILED: {why.splitlines()[0]}"]
    return [
        one["title"],
        millis(one["staleness_half"]),
        millis(one["staleness_99"]),
        millis(one["staleness_most"]),
        millis(one["planted"]),
        f"{one['ingest'] / 1e6:.3f} M/s",
        f"{one['publications']:.0f}",
        f"{one['bytes'] / 2**20:.0f} MiB",
    ]


def millis(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"


def explanation() -> str:
    return (
        "half, 99%, most: for so much of the time, while new edges came and until all were in,\n"
        "the first edge that the last good publication lacked had waited for at most so long;\n"
        "planted: from the edges that make a new vertex the first until one says so;\n"
        "ingest: the edges that there were before, from the first until ranks had all. Medians.\n"
    )


def ratios(result: dict[str, Any]) -> str:
    said = [f"{name} {ratio:.2f}" for name, ratio in result["ratios"].items()]
    return f"In parts / in one: {'; '.join(said)}.\n" if said else ""


def targets(result: dict[str, Any]) -> str:
    rows = [["target", "of", "is", "", ""]]
    for one in result["targets"]:
        met = "met" if one["met"] else "MISSED"
        rows.append([one["name"], one["of"], f"{one['value']:.3g}", one["target"], met])
    note = "" if result["promised"] else "Not the usual graph: no promise here.\n"
    return columns(rows) + note


def setups(result: dict[str, Any]) -> str:
    said = ["tuning (benches/stream/tuning.toml)"]
    for one in result["contestants"]:
        said.append(f"  {one['title']} {one['version']}: {one['what']}")
        said += [f"      {line}" for line in one["tuning"]]
    return "\n".join(said) + "\n"
