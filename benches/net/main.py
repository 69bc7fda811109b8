"""`./nile bench net`: a node's network beside Linux's, in network namespaces of its own.

* spaces: the namespaces. system: the node, Linux in its place, and clients of both.
* rows, judge: the measuring, and what comes of it.
* document: the result, also as text."""

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from harness import program, record
from harness.install import say
from harness.page import page, preformatted, problems
from net import rows
from net.document import document, recorded, text
from net.system import Bench

# Seconds of a stream, and restarts in a turn.
USUAL, QUICK = (3.0, 40), (1.0, 4)

# What a node with its disk and a download take.
DISK, MEMORY = 1 << 29, 1 << 30


def arguments(words: list[str]) -> argparse.Namespace:
    parser = program.parser("net")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", nargs="+", required=True)
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = arguments(words)
    return program.run(lambda: bench(options))


def bench(options: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise program.WrongRequest("it makes network namespaces and a TAP, which takes root")
    base = program.folder_for(DISK, MEMORY)
    work = Path(tempfile.mkdtemp(prefix="nile-net-", dir=base))
    programs, packages = (Path(os.environ[it]) for it in ("NILE_PROGRAMS", "NILE_PACKAGES"))
    entries = rows.entries(options.rows)
    setup = Bench(work, programs, packages, options.control)
    try:
        setup.begin()
        seconds, faults = QUICK if options.quick else USUAL
        rows.run(entries, rows.Task(setup, seconds, faults), options.runs)
    finally:
        try:
            setup.end()
        finally:
            shutil.rmtree(work, ignore_errors=True)
    promised = not (options.quick or options.control)
    result = document(entries, options.runs, promised, options.control)
    if options.report:
        report(result, options.report)
    print(json.dumps(result) if options.json else text(result), flush=True)
    for row, figures in recorded(result).items():
        record.append(options.record, f"net {row}", figures)
    for problem in result["problems"]:
        say(problem)
    return 1 if result["problems"] else 0


def report(result: dict[str, Any], folder: Path) -> None:
    """Writes the document, and a page that needs no other file."""
    folder.mkdir(parents=True, exist_ok=True)
    written = json.dumps(result, indent=1) + "\n"
    (folder / "result.json").write_text(written)
    parts = [preformatted(text(result)), problems(result["problems"]), preformatted(written)]
    (folder / "report.html").write_text(page("A node's network beside Linux's", parts))
