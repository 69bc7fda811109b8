"""The result as a folder: the document, the plot, and one page that shows all and needs no other
file."""

import json
from pathlib import Path
from typing import Any

from harness.install import Tools
from harness.page import drawing, page, paragraph, preformatted, problems, table
from linux import text

PLOT = "noise.svg"


def write(result: dict[str, Any], folder: Path, tools: Tools) -> None:
    """Writes the files; those of these names that are there are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    document = folder / "result.json"
    document.write_text(json.dumps(result, indent=1) + "\n")
    tools.run("linux.plot", document, folder / PLOT)
    plot = drawing((folder / PLOT).read_text()) if (folder / PLOT).exists() else ""
    (folder / "report.html").write_text(whole_page(result, plot))


def whole_page(result: dict[str, Any], plot: str) -> str:
    ran = text.with_noise(result)
    verdicts = [
        [it["name"], it["of"], f"{it['value']:.2f}", it["target"], "met" if it["met"] else "MISSED"]
        for it in result["targets"]
    ]
    parts = [
        paragraph(text.heading(result)),
        table(["guest", *text.SORT[1:]], [text.sort_row(one) for one in result["guests"]]),
        paragraph(text.sort_explanation()),
        *([] if not ran else noise(ran, plot)),
        *switches(text.with_switch(result)),
        "<h2>Targets</h2>",
        table(["target", "of", "is", "must be", ""], verdicts),
        problems(result["problems"]),
        "<h2>How each was set up</h2>",
        preformatted(text.setups(result)),
        "<h2>The document</h2>",
        preformatted(json.dumps(result, indent=1)),
    ]
    return page("NileOS beside Linux", parts)


def switches(ran: list[dict[str, Any]]) -> list[str]:
    if not ran:
        return []
    return [
        "<h2>Switches</h2>",
        table(["guest", *text.SWITCH[1:]], [text.switch_row(one) for one in ran]),
        paragraph(text.switch_explanation()),
    ]


def noise(ran: list[dict[str, Any]], plot: str) -> list[str]:
    return [
        "<h2>Noise</h2>",
        table(["guest", *text.NOISE[1:]], [text.noise_row(one) for one in ran]),
        paragraph(text.noise_explanation()),
        plot,
    ]
