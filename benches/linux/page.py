"""The result as a folder: the document, the plot, and one page that shows all and needs no other
file."""

import json
from html import escape
from pathlib import Path
from typing import Any

import text
from install import Tools, bring
from report import STYLE, drawing, table

PLOT = "noise.svg"


def write(result: dict[str, Any], folder: Path, tools: Tools) -> None:
    """Writes the files; those of these names that are there are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    document = folder / "result.json"
    document.write_text(json.dumps(result, indent=1) + "\n")
    script = Path(__file__).with_name("plot.py")
    bring([str(tools.python), str(script), str(document), str(folder / PLOT)], "the plot")
    plot = drawing((folder / PLOT).read_text()) if (folder / PLOT).exists() else ""
    (folder / "report.html").write_text(page(result, plot))


def page(result: dict[str, Any], plot: str) -> str:
    ran = [one for one in result["guests"] if "noise" in one]
    verdicts = [
        [it["name"], it["of"], f"{it['value']:.2f}", it["target"], "met" if it["met"] else "MISSED"]
        for it in result["targets"]
    ]
    parts = [
        f"<h1>NileOS beside Linux</h1><p>{escape(text.heading(result))}</p>",
        table(["guest", *text.SORT[1:]], [text.sort_row(one) for one in result["guests"]]),
        f"<p>{escape(text.sort_explanation())}</p>",
        "<h2>Noise</h2>",
        table(["guest", *text.NOISE[1:]], [text.noise_row(one) for one in ran]),
        f"<p>{escape(text.noise_explanation())}</p>",
        plot,
        "<h2>Targets</h2>",
        table(["target", "of", "is", "must be", ""], verdicts),
        "".join(f"<p class=MISSED>{escape(one)}</p>" for one in result["problems"]),
        "<h2>How each was set up</h2>",
        f"<pre>{escape(text.setups(result))}</pre>",
        "<h2>The document</h2>",
        f"<pre>{escape(json.dumps(result, indent=1))}</pre>",
    ]
    body = "\n".join(parts)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>NileOS beside Linux</title>"
        f"<style>{STYLE}</style><body>{body}</body></html>\n"
    )
