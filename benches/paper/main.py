"""`./nile bench paper`: the experiment of the NileOS paper's section IV at this machine's scale.

* design: the factors, and the runs in randomised blocks.
* environments, history: NileOS, the same on Linux, Hadoop; what each says of its shuffle.
* experiment: the measuring.
* analysis, figures: the statistics and the figures, run by a Python that has the packages.
* result, findings, show, report: the result as a document, beside the paper's, as text and as a
  page."""

import argparse
import json
from pathlib import Path
from typing import Any

from harness import program, record
from harness.install import Tools, say
from harness.peer import Place
from paper import design, environments, report, result, show
from paper.experiment import Experiment, Observation

PACKAGES = ("numpy", "scipy", "statsmodels", "matplotlib")

# The control: for how long the workers of the hindered environment stand still in each sort.
HINDERED_SECONDS = 0.5

# Files take so many times all inputs at most: those, with each environment and in what it makes of
# them. NileOS and Linux take so many times the largest as memory, and Hadoop some besides.
DISK = 10
MEMORY = 4
HADOOP_MEMORY = 4e9


def arguments(words: list[str]) -> argparse.Namespace:
    parser = program.parser("paper")
    parser.add_argument("--mebibytes", type=int, nargs="+", required=True)
    parser.add_argument("--reducers", type=int, nargs="+", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--hadoop", action="store_true")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = arguments(words)
    return program.run(lambda: bench(options))


def bench(options: argparse.Namespace) -> int:
    jobs = design.jobs(options.mebibytes)
    mappers = max(options.reducers)
    settings = environments.settings(mappers, mappers, jobs[0])
    disk = DISK * sum(job.bytes for job in jobs)
    memory = MEMORY * jobs[0].bytes + (HADOOP_MEMORY if options.hadoop else 0)
    with program.place("paper", settings, jobs, disk, memory) as place:
        place.tools.need_packages(*PACKAGES)
        document = measure(place, mappers, options)
        if options.report:
            report.write(document, options.report, place.tools)
    print(json.dumps(document) if options.json else show.text(document), flush=True)
    record.append(options.record, "paper", result.recorded(document))
    for problem in document["problems"]:
        say(problem)
    return 1 if document["problems"] else 0


def measure(place: Place, mappers: int, options: argparse.Namespace) -> dict[str, Any]:
    jobs = list(place.data.jobs)
    if options.control:
        contestants = environments.control(place, HINDERED_SECONDS)
    else:
        contestants = environments.contestants(place, options.hadoop)
    experiment = Experiment(contestants, place.data, mappers)
    experiment.install()
    place.data.make({one.peer.form for one in contestants})
    names = [one.name for one in contestants if one.takes_part]
    blocks = design.blocks(names, jobs, options.reducers, options.runs, options.seed)
    experiment.run(blocks)
    # Who has failed at some time is not compared.
    out = {one.name for one in contestants if not one.takes_part}
    observations = [it for it in experiment.observations if it.environment not in out]
    asked = {
        "sizes": [job.name for job in reversed(jobs)],
        "reducers": options.reducers,
        "mappers": mappers,
        "runs": options.runs,
        "seed": options.seed,
        "control": options.control,
    }
    analysis = analyse(observations, place.work, place.tools)
    return result.document(contestants, observations, analysis, asked)


def analyse(observations: list[Observation], work: Path, tools: Tools) -> dict[str, Any] | None:
    """What the statistics say; nothing of a single combination of levels."""
    levels = {(it.environment, it.size, it.reducers) for it in observations}
    if len(levels) < 2:
        return None
    source, target = work / "observations.json", work / "analysis.json"
    source.write_text(json.dumps(result.rows(observations)))
    tools.run("paper.analysis", source, target)
    analysis: dict[str, Any] = json.loads(target.read_text())
    return analysis
