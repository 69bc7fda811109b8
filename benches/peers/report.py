"""The result as a folder: the document, the plots, and one page that shows all and needs no other
file."""

import json
from pathlib import Path
from typing import Any

from harness.install import Tools
from harness.page import drawing, page, paragraph, preformatted, problems, table
from peers import show

TITLE = "NileOS beside its peers"
PLOTS = ("time.svg", "start-up.svg", "memory.svg")


def write(result: dict[str, Any], folder: Path, tools: Tools) -> None:
    """Writes the files; those of these names that are there are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    document = folder / "result.json"
    document.write_text(json.dumps(result, indent=1) + "\n")
    tools.run("peers.jobs.plot", document, folder)
    plots = [drawing((folder / name).read_text()) for name in PLOTS if (folder / name).exists()]
    (folder / "report.html").write_text(whole_page(result, plots))


def whole_page(result: dict[str, Any], plots: list[str]) -> str:
    figures = [show.row(one, result["bytes"]) for one in result["contestants"]]
    verdicts = [
        [it["name"], it["of"], f"{it['ratio']:.2f}", it["target"], "met" if it["met"] else "MISSED"]
        for it in result["targets"]
    ]
    promise = "" if result["promised"] else "<p>Targets are for 1 GB and more: no promise here.</p>"
    parts = [
        paragraph(show.heading(result)),
        table(["contestant", *show.HEAD[1:]], figures),
        paragraph(show.explanation()),
        *plots,
        "<h2>Targets</h2>",
        table(["target", "of", "ratio", "must be", ""], verdicts) + promise,
        problems(result["problems"]),
        "<h2>How each was set up</h2>",
        preformatted(show.setups(result)),
        "<h2>The document</h2>",
        preformatted(json.dumps(result, indent=1)),
    ]
    return page(TITLE, parts)
