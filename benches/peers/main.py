"""`./nile bench peers`: NileOS beside those who sort the same data by other means.

* harness.tuning: the one file that says how each contestant is set up.
* harness.install, data, processes: what contestants need, sort, and are.
* harness.peer: what a contestant is to the rest; nileos, programs, hadoop, and here tables: each of
  them.
* rounds, judge: the measuring, and what comes of it.
* result, show, report: the result as a document, as text, as plots and HTML."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from harness import program, record, tuning
from harness.data import RECORD, Data, Job
from harness.hadoop import HadoopLocal, HadoopYarn
from harness.install import say
from harness.nileos import NileOs
from harness.peer import Peer, Place
from harness.programs import GnuSort, Reference
from peers import report, result, rounds, show
from peers.tables import DuckDb, Polars, Spark

PEERS: dict[str, type[Peer]] = {
    peer.name: peer for peer in (Reference, GnuSort, DuckDb, Polars, Spark, HadoopLocal, HadoopYarn)
}

# The control: for how many seconds for each gigabyte the workers of the node stand still in each
# sort, at least for one gigabyte; and how many times the data it holds besides.
HINDERED_SECONDS = 3.0
BALLAST = 2

# A node takes so many times the data of memory.
MEMORY = 1.5

# Records of the job that shows what it takes to start.
TINY = 1000


def arguments(words: list[str]) -> argparse.Namespace:
    parser = program.parser("peers")
    parser.add_argument("--mebibytes", type=int, required=True)
    parser.add_argument("--only", nargs="*", choices=PEERS, default=list(PEERS))
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = arguments(words)
    return program.run(lambda: bench(options))


def bench(options: argparse.Namespace) -> int:
    size = options.mebibytes << 20
    settings = tuning.read(tuning.FILE.read_text(), tuning.words())
    jobs = [Job("whole", size // RECORD), Job("tiny", TINY)]
    disk = room([NileOs, *map(PEERS.__getitem__, options.only)]) * size
    with program.place("peers", settings, jobs, disk, MEMORY * size) as place:
        ours = rounds.Entry(nileos(place, size, options.control))
        peers = [rounds.Entry(PEERS[name](place)) for name in options.only]
        document = measure(ours, peers, place.data, options)
        if options.report:
            report.write(document, options.report, place.tools)
    print(json.dumps(document) if options.json else show.text(document), flush=True)
    record.append(options.record, f"peers {size / 1e9:.3g} GB", result.recorded(document))
    for problem in document["problems"]:
        say(problem)
    return 1 if document["problems"] else 0


def room(contestants: Sequence[type[Peer]]) -> int:
    """How many times the data their files take at most: each form of the data, and what one of them
    makes of it."""
    forms = {contestant.form for contestant in contestants}
    return len(forms) + max(contestant.room for contestant in contestants)


def measure(
    ours: rounds.Entry, peers: list[rounds.Entry], data: Data, options: argparse.Namespace
) -> dict[str, Any]:
    entries = [ours, *peers]
    rounds.install(entries)
    if options.report:
        data.tools.need_packages("matplotlib")
    forms = {entry.peer.form for entry in entries if entry.takes_part}
    data.make(forms)
    rounds.run(entries, data, options.runs)
    return result.document(ours, peers, data.jobs[0].records, options.runs, options.control)


def nileos(place: Place, size: int, control: bool) -> NileOs:
    if not control:
        return NileOs(place)
    return NileOs(place, HINDERED_SECONDS * max(1.0, size / 1e9), BALLAST * size)
