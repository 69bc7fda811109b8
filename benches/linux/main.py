"""`./nile bench linux`: a NileOS guest beside Linux guests on the same machine in QEMU, which sort
the same records with the same code.

* tuning.toml: how each guest is set up.
* kernel, initramfs: what a Linux guest boots.
* guests, node: what guests are to the rest, and each of them.
* turns, judge: the measuring, and what comes of it.
* document, text, page, plot: the result as a document, as text, as a page and a plot."""

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path

from harness import program, record, tuning
from harness.install import Tools, say
from linux import initramfs, page, text, turns
from linux.document import document, recorded
from linux.guests import Linux, Place, Task
from linux.kernel import Kernel
from linux.node import NileOs

TUNING = Path(__file__).with_name("tuning.toml")

# The nodes, by how many machines share a sort, and the Linux guests, as the tuning file calls them.
NODES = {1: ("nileos", "nileos-dedicated"), 2: ("nileos", "nileos-unsealed")}
LINUX = ("linux", "linux-direct", "linux-isolated", "linux-checked")

# Which of the latter a quick run has, and how many quanta.
QUICK_LINUX = ("linux-isolated",)
QUICK_QUANTA = 500

RECORD = 100

# Files take so many times the data at most, and as much again that is written while they grow.
DISK = 4


def arguments(words: list[str]) -> argparse.Namespace:
    parser = program.parser("linux")
    parser.add_argument("--mebibytes", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--cores", type=int, required=True)
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = arguments(words)
    return program.run(lambda: bench(options))


def bench(options: argparse.Namespace) -> int:
    size = options.mebibytes << 20
    base = program.folder_for(options.nodes * DISK * size, 0)
    built = Path(os.environ["CARGO_TARGET_DIR"])
    tables = tuning.read(TUNING.read_text(), words_for(options.cores))
    usual = tuning.read(tuning.FILE.read_text(), tuning.words())
    tools = Tools(built / "peers", usual["packages"])
    work = Path(tempfile.mkdtemp(prefix="nile-linux-", dir=base))
    entries: list[turns.Entry] = []
    try:
        if options.report:
            tools.need_packages("matplotlib")
        packages = Path(os.environ["NILE_PACKAGES"])
        programs = Path(os.environ["NILE_PROGRAMS"])
        place = Place(work, programs / "nile", packages, tables, options.nodes)
        task = Task(size // RECORD, QUICK_QUANTA if options.quick else tables["fwq"]["quanta"])
        nodes = [turns.Entry(NileOs(name, place, options.control)) for name in NODES[options.nodes]]
        names = QUICK_LINUX if options.quick else LINUX
        others = list(map(turns.Entry, guests(names, place, Kernel(built / "linux"))))
        entries += [*nodes, *others]
        turns.run(entries, task, options.runs)
        promised = not options.quick
        control = options.control
        result = document(nodes, others, task, tables, options.runs, promised, control)
        if options.report:
            page.write(result, options.report, tools)
    finally:
        for entry in entries:
            entry.guest.end()
        shutil.rmtree(work, ignore_errors=True)
    print(json.dumps(result) if options.json else text.text(result), flush=True)
    shape = f"{options.cores} cores" if options.nodes == 1 else f"{options.nodes} nodes"
    record.append(options.record, f"linux {shape}", recorded(result))
    for problem in result["problems"]:
        say(problem)
    return 1 if result["problems"] else 0


def words_for(cores: int) -> dict[str, str]:
    """What the tuning says of a machine with so many cores: the last half of them sort."""
    first = cores - cores // 2
    return {
        "{cores}": str(cores),
        "{workers}": str(cores - first),
        "{sorting}": ",".join(map(str, range(first, cores))),
        "{others}": ",".join(map(str, range(first))),
    }


def guests(names: tuple[str, ...], place: Place, kernel: Kernel) -> list[Linux]:
    """The Linux guests, with what they boot."""
    kernel.install()
    archive = initramfs.write(place.work, Path(os.environ["NILE_GUEST"]), kernel.modules())
    release = kernel.release()
    return [Linux(name, place, kernel.image(), archive, release) for name in names]
