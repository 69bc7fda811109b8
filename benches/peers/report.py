"""The result as a folder: the document, the plots, and one page that shows all and needs no other
file."""

import json
from html import escape
from pathlib import Path
from typing import Any

import show
from install import HERE, Tools, bring

PLOTS = ("time.svg", "start-up.svg", "memory.svg")

STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 }
th, td { text-align: left; padding: .2em .9em .2em 0; border-bottom: 1px solid #ddd }
td { font-variant-numeric: tabular-nums }
svg { max-width: 100%; height: auto; display: block; margin: 1.5em 0 }
.MISSED { color: #b00020; font-weight: bold }
pre { background: #f4f5f6; padding: .8em; overflow-x: auto }
"""


def write(result: dict[str, Any], folder: Path, tools: Tools) -> None:
    """Writes the files; those of these names that are there are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    document = folder / "result.json"
    document.write_text(json.dumps(result, indent=1) + "\n")
    bring([str(tools.python), str(HERE / "jobs/plot.py"), str(document), str(folder)], "the plots")
    plots = [drawing((folder / name).read_text()) for name in PLOTS if (folder / name).exists()]
    (folder / "report.html").write_text(page(result, plots))


def drawing(svg: str) -> str:
    """An SVG file as it can stand in a page: without what is before its first element."""
    return svg[svg.index("<svg") :]


def page(result: dict[str, Any], plots: list[str]) -> str:
    figures = [show.row(one, result["bytes"]) for one in result["contestants"]]
    verdicts = [
        [it["name"], it["of"], f"{it['ratio']:.2f}", it["target"], "met" if it["met"] else "MISSED"]
        for it in result["targets"]
    ]
    promise = "" if result["promised"] else "<p>Targets are for 1 GB and more: no promise here.</p>"
    parts = [
        f"<h1>NileOS beside its peers</h1><p>{escape(show.heading(result))}</p>",
        table(["contestant", *show.HEAD[1:]], figures),
        f"<p>{escape(show.explanation())}</p>",
        *plots,
        "<h2>Targets</h2>",
        table(["target", "of", "ratio", "must be", ""], verdicts) + promise,
        "".join(f"<p class=MISSED>{escape(one)}</p>" for one in result["problems"]),
        "<h2>How each was set up</h2>",
        f"<pre>{escape(show.setups(result))}</pre>",
        "<h2>The document</h2>",
        f"<pre>{escape(json.dumps(result, indent=1))}</pre>",
    ]
    body = "\n".join(parts)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>NileOS beside its peers</title>"
        f"<style>{STYLE}</style><body>{body}</body></html>\n"
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table; the last cell of a short row is as wide as what it lacks."""

    def line(cells: list[str]) -> str:
        *first, last = cells
        wide = f" colspan={len(head) - len(first)}" if len(cells) < len(head) else ""
        mark = " class=MISSED" if last == "MISSED" else ""
        inner = "".join(f"<td>{escape(cell)}</td>" for cell in first)
        return f"<tr>{inner}<td{wide}{mark}>{escape(last)}</td></tr>"

    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f"<table><tr>{names}</tr>{''.join(map(line, rows))}</table>"
