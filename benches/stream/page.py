"""The result as a folder: the document, the plot, and one page that shows all and needs no other
file."""

import json
from pathlib import Path
from typing import Any

from harness.install import Tools
from harness.page import drawing, page, paragraph, preformatted, problems, table
from stream import text

PLOT = "staleness.svg"


def write(result: dict[str, Any], folder: Path, tools: Tools) -> None:
    """Writes the files; those of these names that are there are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    document = folder / "result.json"
    document.write_text(json.dumps(result, indent=1) + "\n")
    tools.run("stream.plot", document, folder / PLOT)
    plot = drawing((folder / PLOT).read_text()) if (folder / PLOT).exists() else ""
    (folder / "report.html").write_text(whole_page(result, plot))


def whole_page(result: dict[str, Any], plot: str) -> str:
    verdicts = [
        [it["name"], it["of"], f"{it['value']:.3g}", it["target"], "met" if it["met"] else "MISSED"]
        for it in result["targets"]
    ]
    parts = [
        paragraph(text.heading(result)),
        table(["contestant", *text.HEAD[1:]], list(map(text.row, result["contestants"]))),
        paragraph(text.explanation() + text.ratios(result)),
        plot,
        "<h2>Targets</h2>",
        table(["target", "of", "is", "must be", ""], verdicts),
        problems(result["problems"]),
        "<h2>How each was set up</h2>",
        preformatted(text.setups(result)),
        "<h2>The document</h2>",
        preformatted(json.dumps(result, indent=1)),
    ]
    return page("Streaming graphs beside others", parts)
