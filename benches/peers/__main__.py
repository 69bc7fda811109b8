"""`./nile bench peers`: NileOS beside those who sort the same data by other means.

The `nile` command starts this with arguments that it has checked. Results go to standard output,
progress to standard error. Exit status 0: all ran and every promised target was met, 1: not, 2: the
request was wrong, 130: interrupted; whatever the end, what was started has ended and its files are
gone.

* tuning: the one file that says how each contestant is set up.
* install, data, processes: what contestants need, sort, and are.
* peer: what a contestant is to the rest; nileos, programs, tables, hadoop: each of them.
* rounds, judge: the measuring, and what comes of it.
* result, show, report: the result as a document, as text, as plots and HTML."""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine
import report
import result
import rounds
import show
import tuning
from data import RECORD, Data, Job
from hadoop import HadoopLocal, HadoopYarn
from install import NotInstalled, Tools, say
from nileos import NileOs
from peer import Peer, Place
from processes import CommandFailed, end_when_interrupted
from programs import GnuSort, Reference
from tables import DuckDb, Polars, Spark

PEERS: dict[str, type[Peer]] = {
    peer.name: peer for peer in (Reference, GnuSort, DuckDb, Polars, Spark, HadoopLocal, HadoopYarn)
}

# The control: for how many seconds for each gigabyte the workers of the node stand still in each
# sort, at least for one gigabyte; and how many times the data it holds besides.
HINDERED_SECONDS = 3.0
BALLAST = 2

# Files take so many times the data at most: three forms of them, and what Hadoop makes of one. A
# node takes so much memory.
DISK = 9
MEMORY = 1.5


class WrongRequest(Exception):
    """A request that cannot be fulfilled; nothing was started."""


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nile bench peers", allow_abbrev=False)
    parser.add_argument("--mebibytes", type=int, required=True)
    parser.add_argument("--only", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--control", action="store_true")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = arguments(words)
    end_when_interrupted()
    try:
        return bench(options)
    except WrongRequest as why:
        say(str(why))
        return 2
    except (CommandFailed, NotInstalled, OSError) as why:
        say(str(why))
        return 1
    except KeyboardInterrupt:
        say("interrupted; what this command had started has ended")
        return 130


def bench(options: argparse.Namespace) -> int:
    size = options.mebibytes << 20
    base = folder_for(size)
    built = Path(os.environ["CARGO_TARGET_DIR"])
    settings = tuning.read(tuning.FILE.read_text(), tuning.cpus())
    tools = Tools(built / "peers", settings["packages"])
    work = Path(tempfile.mkdtemp(prefix="nile-peers-", dir=base))
    nile = built / "release/nile"
    data = Data(work / "data", f"{options.mebibytes}M", nile, tools)
    try:
        packages = Path(os.environ["NILE_PACKAGES"])
        place = Place(work, built / "release", packages, tools, data, settings)
        ours = rounds.Entry(nileos(place, size, options.control))
        peers = [rounds.Entry(PEERS[name](place)) for name in options.only]
        document = measure(ours, peers, data, options)
        if options.report:
            report.write(document, options.report, tools)
    finally:
        data.crew.end()
        shutil.rmtree(work, ignore_errors=True)
    print(json.dumps(document) if options.json else show.text(document), flush=True)
    for problem in document["problems"]:
        say(problem)
    return 1 if document["problems"] else 0


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
    records = data.file(ours.peer.form, Job.WHOLE).stat().st_size // RECORD
    return result.document(ours, peers, records, options.runs, options.control)


def nileos(place: Place, size: int, control: bool) -> NileOs:
    if not control:
        return NileOs(place)
    return NileOs(place, HINDERED_SECONDS * max(1.0, size / 1e9), BALLAST * size)


def folder_for(size: int) -> Path:
    """Where files go, which is not in memory; refuses to begin without room."""
    base = Path(os.environ.get("TMPDIR") or "/var/tmp")
    wanted, free = DISK * size, shutil.disk_usage(base).free
    if free < wanted:
        raise WrongRequest(
            f"it may take {wanted / 1e9:.1f} GB of disk, and {base} has {free / 1e9:.1f} GB free; "
            "set TMPDIR to another folder, or sort less with --size"
        )
    wanted, free = MEMORY * size, machine.available_memory()
    if free < wanted:
        raise WrongRequest(
            f"it may take {wanted / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free; "
            "sort less with --size"
        )
    return base


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
