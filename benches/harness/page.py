"""Results for people: columns of text, and one HTML page that needs no other file."""

from collections.abc import Sequence
from html import escape
from typing import Any

STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 }
th, td { text-align: left; padding: .2em .9em .2em 0; border-bottom: 1px solid #ddd }
td { font-variant-numeric: tabular-nums }
svg { max-width: 100%; height: auto; display: block; margin: 1.5em 0 }
.MISSED { color: #b00020; font-weight: bold }
pre { background: #f4f5f6; padding: .8em; overflow-x: auto }
"""


def machine(here: dict[str, Any]) -> str:
    """What was measured on, in a line."""
    return (
        f"{here['cpus']} CPUs, {here['processor']}, {here['memory_bytes'] / 2**30:.1f} GiB, "
        f"{here['kernel']}, {here['system']}"
    )


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines, their columns below each other; the last of a short row may be longer."""
    most = max(map(len, rows))
    full = [row for row in rows if len(row) == most]
    widths = [max(len(row[at]) for row in full) for at in range(most)]
    widths[0] = max(len(row[0]) for row in rows)
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    )
    return "\n".join(lines) + "\n"


def page(title: str, parts: Sequence[str]) -> str:
    """A page of these elements."""
    body = "\n".join([f"<h1>{escape(title)}</h1>", *parts])
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f"<style>{STYLE}</style><body>{body}</body></html>\n"
    )


def drawing(svg: str) -> str:
    """An SVG file as it can stand in a page: without what is before its first element."""
    return svg[svg.index("<svg") :]


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def problems(lines: Sequence[str]) -> str:
    return "".join(f"<p class=MISSED>{escape(line)}</p>" for line in lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the last cell of a short row is as wide as what it lacks."""

    def line(cells: Sequence[str]) -> str:
        *first, last = cells
        wide = f" colspan={len(head) - len(first)}" if len(cells) < len(head) else ""
        mark = " class=MISSED" if last == "MISSED" else ""
        inner = "".join(f"<td>{escape(cell)}</td>" for cell in first)
        return f"<tr>{inner}<td{wide}{mark}>{escape(last)}</td></tr>"

    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f"<table><tr>{names}</tr>{''.join(map(line, rows))}</table>"
