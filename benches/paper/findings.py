"""What the paper's section IV finds, beside what this run has found, and what that can show."""

from collections.abc import Mapping
from typing import Any

HEAD = ["the paper", "there", "here"]

# Effects that the paper calls significant.
EFFECTS = (
    "environment",
    "megabytes",
    "reducers",
    "environment × reducers",
    "megabytes × reducers",
)

LIMITS = (
    "What this can show: on one machine, with the same records, the same number of mappers and "
    "the same numbers of reducers, how long each environment takes from the job's submission to "
    "its written output, and which factors that depends on. What it cannot: the paper had 21 "
    "virtual machines on four nodes, 2 to 32 GB and a network, and a Hadoop of a version that it "
    "does not give; here all is on one machine, what is sorted fits its memory and lies in its "
    "page cache, and nothing crosses a network: no cost of one is seen. The environments differ "
    "in more than the operating system. Hadoop starts a JVM for each task, which outweighs the "
    "sorting of so little data, and its work survives the loss of machines; NileOS runs hosted, "
    "as processes on the same Linux; its sort and the program on Linux are compiled code that "
    "knows the form of the records. So the ratio to Hadoop is that of two whole systems, and no "
    "measure of a kernel: only NileOS beside the program on Linux, which takes the same steps, "
    "is near to one, and that program was tuned by hand for this sort. The levels are fixed by "
    "the experiment, and its regression says nothing of sizes that do not fit memory."
)

SHUFFLE = (
    "Shuffle speed: the paper isolates the shuffle of its own implementation, from the end of "
    "the mappers until the reducers have their data, partitioning and transfer together. NileOS "
    "and the program on Linux have no such phase: reducers take records out of the mappers' "
    "memory while they merge and write. For all three, the speed here is therefore the data over "
    "the time from the last map task's end to the end of the output (NileOS: its phase "
    "`reducing`; Linux: `sort and write`; Hadoop: its job history), which a shuffle alone can "
    "only be faster than. Hadoop's own shuffle is given apart: the counter REDUCE_SHUFFLE_BYTES "
    "over the time from the start of the first reduce task, its JVM included, until the last one "
    "has all of its input."
)


def rows(result: Mapping[str, Any]) -> list[list[str]]:
    """The findings one by one."""
    made = [*gains(result), *further(result), *shuffles(result)]
    analysis = result["analysis"]
    if analysis is None:
        return made
    scale = analysis["scales"][analysis["scale"]]
    effects = {it["effect"]: it for it in scale["effects"]}
    for name in EFFECTS:
        if name in effects:
            it = effects[name]
            said = "significant" if it["is_significant"] else "not significant"
            here = f"{said}, p {small(it['p'])}, {it['share']:.1%} of the mean squares"
            made.append([f"effect of {readable(name)}", "significant", here])
    normality = scale["normality"]
    here = (
        f"{'normal' if normality['is_normal'] else 'NOT normal'}: Anderson-Darling p "
        f"{small(normality['anderson_darling']['p'])}, Shapiro-Wilk p "
        f"{small(normality['shapiro_wilk']['p'])} ({analysis['scale']})"
    )
    made.append(["residuals at 0.01", "normal by both tests", here])
    regression = scale["regression"]
    here = f"R² {regression['r_squared']:.4f}, adjusted {regression['adjusted_r_squared']:.4f}"
    made.append(["regression", "R² and adjusted R² very high", here])
    if told := regression["extrapolated"]:
        errors = ", ".join(f"{name} {error:.0%}" for name, error in told["mean_error"].items())
        here = f"{told['megabytes']:.0f} MB from the smaller sizes: off by {errors}"
        made.append(["prediction beyond the levels", "possible by the regression", here])
    return made


def gains(result: Mapping[str, Any]) -> list[list[str]]:
    made = []
    titles = {it["name"]: it["title"] for it in result["environments"]}
    for it in result["comparisons"]:
        title = titles[it["environment"]]
        is_papers = it["environment"] == "hadoop"
        there = f"{result['paper_speed_up']} ×" if is_papers else "-"
        here = f"{it['mean']:.2f} × (geometric mean {it['geometric_mean']:.2f} ×)"
        made.append([f"{title} takes, on average", there, here])
        if is_papers:
            grown, falls = it["grows_with_reducers"], it["falls_with_size"]
            made.append(["gain with more reducers", "grows", f"grows at {of(grown)} sizes"])
            made.append(["gain with more data", "falls", f"falls at {of(falls)} reducers"])
    return made


def further(result: Mapping[str, Any]) -> list[list[str]]:
    """What the job takes by its size alone: starting JVMs for it is none of that."""
    titles = {it["name"]: it["title"] for it in result["environments"]}
    said = []
    for it in result["lines"]:
        slope, error = it["seconds_per_gigabyte"], it["standard_error"]
        said.append(f"{titles[it['environment']]} {slope:.2f} ± {error:.2f} s")
    return [["each further GB takes", "-", ", ".join(said)]] if said else []


def shuffles(result: Mapping[str, Any]) -> list[list[str]]:
    """By reducers, over all sizes."""
    levels = sorted({it["reducers"] for it in result["cells"]})
    if len(levels) < 2:
        return []
    rates = [rate(result, "nileos", level, "reducing_rate") for level in levels]
    here = ", ".join(f"{one}: {it:.0f} MB/s" for one, it in zip(levels, rates, strict=True))
    return [["NileOS's shuffle by reducers", "grows up to 18 of 20 reducers", here]]


def rate(result: Mapping[str, Any], environment: str, reducers: int, name: str) -> float:
    """A rate over all sizes: all the data over all the time."""
    cells = [
        it
        for it in result["cells"]
        if it["environment"] == environment and it["reducers"] == reducers and name in it
    ]
    time = sum(it["megabytes"] / it[name] for it in cells)
    return float(sum(it["megabytes"] for it in cells) / time) if time else float("nan")


def of(found: list[int]) -> str:
    return f"{found[0]} of {found[1]}"


def readable(effect: str) -> str:
    return effect.replace("megabytes", "size")


def small(p: float | None) -> str:
    if p is None:
        return "-"
    return f"{p:.4f}" if p >= 0.0001 else f"{p:.1e}"
