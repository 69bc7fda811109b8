"""The result as a folder: the document, the figures, and one page that shows all and needs no other
file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.install import Tools
from harness.page import drawing, page, paragraph, preformatted, problems, table
from paper import findings, show

TITLE = "The experiment of the NileOS paper at this machine's scale"

# The figures with their counterparts in the paper.
FIGURES = {
    "runtime.svg": "Execution time by size and reducers (figure 17 of the paper)",
    "speed-up.svg": "How many times as long as NileOS (figure 18)",
    "shuffle.svg": "From mappers to reducers, by reducers (figure 19)",
    "q-q.svg": "Residuals against the normal distribution (figure 20)",
    "mean-squares.svg": "Shares of the mean squares (figure 20)",
    "interactions.svg": "What two factors do together (figure 21)",
    "surfaces.svg": "Execution time over size and reducers (figure 21)",
}


def write(result: Mapping[str, Any], folder: Path, tools: Tools) -> None:
    """Writes the files; those of these names that are there are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    document = folder / "result.json"
    document.write_text(json.dumps(result, indent=1) + "\n")
    for name in FIGURES:
        (folder / name).unlink(missing_ok=True)
    tools.run("paper.figures", document, folder)
    made = [name for name in FIGURES if (folder / name).exists()]
    figures = {name: drawing((folder / name).read_text()) for name in made}
    (folder / "report.html").write_text(whole_page(result, figures))


def whole_page(result: Mapping[str, Any], figures: Mapping[str, str]) -> str:
    """The page, given the figures."""
    rates = [["", *map(str, show.reducers(result))], *show.rates(result)]
    parts = [
        paragraph(show.heading(result)),
        problems(result["problems"]),
        "<h2>Beside the paper</h2>",
        table(findings.HEAD, findings.rows(result)),
        paragraph(findings.LIMITS),
        "<h2>Execution time</h2>",
        *shown(figures, "runtime.svg", "speed-up.svg"),
        table(["environment", *show.HEAD[1:]], show.cells(result)),
        "<h2>Shuffle</h2>",
        *shown(figures, "shuffle.svg"),
        table(["MB/s by reducers", *rates[0][1:]], rates[1:]),
        paragraph(findings.SHUFFLE),
        *statistics(result, figures),
        *shown(figures, "interactions.svg", "surfaces.svg"),
        "<h2>How each environment was set up</h2>",
        preformatted(show.setups(result)),
        "<h2>The document</h2>",
        preformatted(json.dumps(result, indent=1)),
    ]
    return page(TITLE, parts)


def shown(figures: Mapping[str, str], *names: str) -> list[str]:
    return [f"<h3>{FIGURES[name]}</h3>{figures[name]}" for name in names if name in figures]


def statistics(result: Mapping[str, Any], figures: Mapping[str, str]) -> list[str]:
    analysis = result["analysis"]
    if analysis is None:
        return []
    parts = ["<h2>Analysis of variance and regression</h2>", paragraph(show.verdict(analysis))]
    parts += shown(figures, "q-q.svg", "mean-squares.svg")
    for name, scale in analysis["scales"].items():
        parts += [
            f"<h3>Of {show.SCALES[name]}</h3>",
            table(show.EFFECTS, show.effects(scale)),
            paragraph(show.normality(scale)),
            paragraph(f"Regression: {show.model(scale)}"),
            table(show.TERMS, show.terms(scale)),
        ]
    return parts
