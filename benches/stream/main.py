"""`./nile bench stream`: how fresh ranks are while edges come, of NileOS and of others that do the
same.

* tuning.toml: how each is set up.
* edges, ranks: the edges, and the ranks that they have in the end.
* contestants, loop: those that take turns, and what a library is run by.
* turn, rounds, judge: the measuring, and what comes of it.
* document, text, page, plot: the result as a document, as text, as a page and a plot."""

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path

from harness import program, record, tuning
from harness.install import Tools, say
from stream import page, rounds, text
from stream.contestants import Place, contestants
from stream.document import document, recorded
from stream.turn import known

TUNING = Path(__file__).with_name("tuning.toml")

# What edges are made with.
PACKAGES = ("numpy", "polars", "scipy")

# Which graph targets are promised for.
USUAL_SCALE, USUAL_RATE, USUAL_SECONDS = 20, 200_000, 10

ERROR = 1e-3

# What edges and contestants take, for each edge.
EDGE_DISK, EDGE_MEMORY = 250, 400


def arguments(words: list[str]) -> argparse.Namespace:
    parser = program.parser("stream")
    parser.add_argument("--scale", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--parts", type=int, required=True)
    parser.add_argument("--only", nargs="+", required=True)
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = arguments(words)
    return program.run(lambda: bench(options))


def bench(options: argparse.Namespace) -> int:
    edges = 16 << options.scale
    base = program.folder_for(EDGE_DISK * edges, EDGE_MEMORY * edges)
    built = Path(os.environ["CARGO_TARGET_DIR"])
    tables = tuning.read(TUNING.read_text(), tuning.words())
    usual = tuning.read(tuning.FILE.read_text(), tuning.words())
    tools = Tools(built / "peers", usual["packages"])
    packages = set(PACKAGES)
    packages.update(*(tables[name].get("packages", ()) for name in options.only))
    if options.report:
        packages.add("matplotlib")
    tools.need_packages(*sorted(packages))
    work = Path(tempfile.mkdtemp(prefix="nile-stream-", dir=base))
    entries: list[rounds.Entry] = []
    try:
        say("making edges, and finding the ranks that they have in the end")
        folder = work / "edges"
        folder.mkdir()
        count = options.rate * options.seconds
        tools.run("stream.edges", folder, str(options.scale), str(count))
        graph = known(folder)
        place = Place(
            work=work,
            programs=Path(os.environ["NILE_PROGRAMS"]),
            tools=tools,
            tuning=tables,
            vertices=graph.vertices,
            edges=graph.edges,
            error=ERROR,
            parts=options.parts,
            control=options.control,
        )
        entries += map(rounds.Entry, contestants(options.only, place))
        rounds.run(entries, graph, options.rate, options.runs)
        given = (options.scale, options.rate, options.seconds)
        promised = given == (USUAL_SCALE, USUAL_RATE, USUAL_SECONDS)
        promised = promised and not options.control
        result = document(entries, graph, options.rate, options.runs, promised, options.control)
        if options.report:
            page.write(result, options.report, tools)
    finally:
        for entry in entries:
            entry.contestant.crew.end()
        shutil.rmtree(work, ignore_errors=True)
    print(json.dumps(result) if options.json else text.text(result), flush=True)
    record.append(options.record, f"stream scale {options.scale}", recorded(result))
    for problem in result["problems"]:
        say(problem)
    return 1 if result["problems"] else 0
