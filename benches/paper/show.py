"""The result as text."""

from collections.abc import Mapping
from textwrap import fill
from typing import Any

from harness import page
from harness.page import columns
from paper import findings
from paper.findings import small

SCALES = {"seconds": "the seconds", "logarithm": "their logarithms"}


def text(result: Mapping[str, Any]) -> str:
    """The whole result."""
    parts = [
        heading(result),
        columns([HEAD, *cells(result)]),
        columns([["MB/s by reducers", *map(str, reducers(result))], *rates(result)]),
        columns([["", *findings.HEAD[1:]], *findings.rows(result)]),
        statistics(result),
        fill(findings.SHUFFLE, 100) + "\n",
        fill(findings.LIMITS, 100) + "\n",
        setups(result),
    ]
    return "\n".join(part for part in parts if part)


def heading(result: Mapping[str, Any]) -> str:
    control = "; CONTROL: NileOS beside itself, hindered on purpose" if result["control"] else ""
    return (
        f"{' '.join(result['sizes'])} × {' '.join(map(str, result['reducers']))} reducers, "
        f"{result['mappers']} mappers, {result['runs']} runs each in an order by seed "
        f"{result['seed']}, {result['date']}{control}\n{page.machine(result['machine'])}\n"
    )


HEAD = ["", "size", "reducers", "median", "all runs", "command", "x NileOS", "reducing", "shuffle"]


def cells(result: Mapping[str, Any]) -> list[list[str]]:
    """A row for each combination of levels, and for who was not run."""
    titles = {it["name"]: it["title"] for it in result["environments"]}
    times = {
        (one["environment"], it["megabytes"], it["reducers"]): it["times"]
        for one in result["comparisons"]
        for it in one["cells"]
    }
    rows = []
    for it in result["cells"]:
        ratio = times.get((it["environment"], it["megabytes"], it["reducers"]))
        shuffle = it.get("shuffle_rate")
        rows.append(
            [
                titles[it["environment"]],
                it["size"],
                str(it["reducers"]),
                f"{it['seconds']:.3f} s",
                " ".join(f"{run:.3f}" for run in it["runs"]),
                f"{it['command_seconds']:.2f} s",
                "-" if ratio is None else f"{ratio:.2f}",
                f"{it['reducing_rate']:.0f} MB/s",
                "-" if shuffle is None else f"{shuffle:.0f} MB/s",
            ]
        )
    for it in result["environments"]:
        if it["not_run"]:
            rows.append([it["title"], f"not run: {it['not_run']}"])
        elif it["failed"]:
            rows.append([it["title"], f"FAILED: {it['failed']}"])
    return rows


def reducers(result: Mapping[str, Any]) -> list[int]:
    return sorted({it["reducers"] for it in result["cells"]})


def rates(result: Mapping[str, Any]) -> list[list[str]]:
    """What went from mappers to reducers in a second, over all sizes, by reducers."""
    rows = []
    for one in result["environments"]:
        mine = [it for it in result["cells"] if it["environment"] == one["name"]]
        for name, what in (("reducing_rate", "reducing"), ("shuffle_rate", "shuffle alone")):
            if any(name in it for it in mine):
                values = [findings.rate(result, one["name"], it, name) for it in reducers(result)]
                rows.append([f"{one['title']}, {what}", *(f"{it:.0f}" for it in values)])
    return rows


def statistics(result: Mapping[str, Any]) -> str:
    """The tables of both scales."""
    analysis = result["analysis"]
    if analysis is None:
        return ""
    parts = [verdict(analysis)]
    for name, scale in analysis["scales"].items():
        parts += [f"Analysis of variance of {SCALES[name]}", columns([EFFECTS, *effects(scale)])]
        parts += [normality(scale), f"Regression of {SCALES[name]}: {model(scale)}"]
        parts.append(columns([TERMS, *terms(scale)]))
    return "\n".join(parts)


def verdict(analysis: Mapping[str, Any]) -> str:
    """Which scale counts, and why."""
    plain, logarithm = (analysis["scales"][name]["normality"] for name in SCALES)
    if plain["is_normal"]:
        return "The residuals of the seconds are normal: their analysis counts.\n"
    if analysis["scale"] == "seconds":
        return (
            "The residuals are NOT normal, and less so those of the logarithms: the analysis of "
            "the seconds counts, and its p-values are to be taken with care.\n"
        )
    if logarithm["is_normal"]:
        return (
            "The residuals of the seconds are not normal, those of their logarithms are: the "
            "analysis of the logarithms counts.\n"
        )
    return (
        "The residuals are NOT normal on either scale, nearer to it with the logarithms, whose "
        "analysis counts: its p-values are to be taken with care.\n"
    )


EFFECTS = ["effect", "df", "sum of squares", "mean square", "share", "F", "p", ""]


def effects(scale: Mapping[str, Any]) -> list[list[str]]:
    return [
        [
            findings.readable(it["effect"]),
            str(it["df"]),
            f"{it['sum_of_squares']:.4g}",
            f"{it['mean_square']:.4g}",
            f"{it['share']:.1%}",
            "-" if it["f"] is None else f"{it['f']:.2f}",
            small(it["p"]),
            "significant" if it["is_significant"] else "",
        ]
        for it in scale["effects"]
    ]


def normality(scale: Mapping[str, Any]) -> str:
    it = scale["normality"]
    anderson, shapiro = it["anderson_darling"], it["shapiro_wilk"]
    return (
        f"Model: R² {scale['r_squared']:.4f}, adjusted {scale['adjusted_r_squared']:.4f}. "
        f"Residuals {'normal' if it['is_normal'] else 'NOT normal'} at 0.01: Anderson-Darling A² "
        f"{anderson['a_squared']:.3f}, p {small(anderson['p'])}; Shapiro-Wilk "
        f"W {shapiro['w']:.4f}, p {small(shapiro['p'])}\n"
    )


TERMS = ["term", "coefficient", "standard error", "t", "p"]


def model(scale: Mapping[str, Any]) -> str:
    it = scale["regression"]
    return f"{it['formula']}; R² {it['r_squared']:.4f}, adjusted R² {it['adjusted_r_squared']:.4f}"


def terms(scale: Mapping[str, Any]) -> list[list[str]]:
    return [
        [
            it["term"],
            f"{it['coefficient']:.4g}",
            f"{it['standard_error']:.2g}",
            f"{it['t']:.2f}",
            small(it["p"]),
        ]
        for it in scale["regression"]["coefficients"]
    ]


def setups(result: Mapping[str, Any]) -> str:
    """How each environment is set up; the levels are those of the last run that it had."""
    said = ["tuning (benches/harness/tuning.toml, benches/paper/tuning.toml)"]
    for one in result["environments"]:
        said.append(f"  {one['title']} {one.get('version', '')}: {one['what']}")
        said += [f"      {line}" for line in one["tuning"]]
    return "\n".join(said) + "\n"
