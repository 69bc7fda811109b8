"""`./nile bench hotplug`: what domains of a NileOS machine take to come, go and change, beside the
hotplug of a Linux guest on the same machine in QEMU.

* systems: both of them, and their turns.
* judge, document: what comes of it, also as text."""

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
from hotplug import systems
from hotplug.document import document, recorded, spread, text
from hotplug.systems import Linux, NileOs
from linux import initramfs
from linux.kernel import Kernel

# What the kernel and its package take of the disk, and a machine of the memory.
DISK, MEMORY = 1 << 29, systems.MEBIBYTES << 20


def arguments(words: list[str]) -> argparse.Namespace:
    parser = program.parser("hotplug")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = arguments(words)
    return program.run(lambda: bench(options))


def bench(options: argparse.Namespace) -> int:
    base = program.folder_for(DISK, MEMORY)
    work = Path(tempfile.mkdtemp(prefix="nile-hotplug-", dir=base))
    nile = Path(os.environ["NILE_PROGRAMS"]) / "nile"
    ours = NileOs(work, nile, options.control)
    theirs = Linux(work, nile)
    try:
        kernel = Kernel(Path(os.environ["CARGO_TARGET_DIR"]) / "linux")
        kernel.install()
        guest = Path(os.environ["NILE_GUEST"])
        theirs.boots(kernel, initramfs.write(work, guest, kernel.modules()))
        rounds = 1 if options.control else options.rounds
        systems.run([ours, theirs], options.runs, rounds)
    finally:
        for system in (ours, theirs):
            system.crew.end()
        shutil.rmtree(work, ignore_errors=True)
    promised = not (options.quick or options.control)
    result = document(ours, theirs, options.runs, rounds, promised, options.control)
    if options.report:
        report(result, options.report)
    print(json.dumps(result) if options.json else text(result), flush=True)
    record.append(options.record, "hotplug", recorded(result))
    record.append(beside(options.record, "spread.csv"), "hotplug", spread([ours, theirs]))
    for problem in result["problems"]:
        say(problem)
    return 1 if result["problems"] else 0


def beside(words: list[str] | None, name: str) -> list[str] | None:
    """What is said of a record, of another file in its folder."""
    return words and [str(Path(words[0]).with_name(name)), *words[1:]]


def report(result: dict[str, Any], folder: Path) -> None:
    """Writes the document, and a page that needs no other file."""
    folder.mkdir(parents=True, exist_ok=True)
    written = json.dumps(result, indent=1) + "\n"
    (folder / "result.json").write_text(written)
    parts = [preformatted(text(result)), problems(result["problems"]), preformatted(written)]
    (folder / "report.html").write_text(page("Domains beside Linux's hotplug", parts))
