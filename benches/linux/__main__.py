"""`./nile bench linux`: a NileOS guest beside Linux guests on the same machine in QEMU, which sort
the same records with the same code.

The `nile` command starts this with arguments that it has checked. Results go to standard output,
progress to standard error. Exit status 0: all ran and every promised target was met, 1: not, 2: the
request was wrong, 130: interrupted; whatever the end, what was started has ended and its files are
gone.

* tuning.toml: how each guest is set up.
* kernel, initramfs: what a Linux guest boots.
* guests, node: what guests are to the rest, and each of them.
* turns, judge: the measuring, and what comes of it.
* document, text, page: the result as a document, as text, as a plot and HTML.

What every comparison needs is in `benches/peers`: processes, installing, tables."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "peers"))

import initramfs  # noqa: E402
import page  # noqa: E402
import text  # noqa: E402
import tuning  # noqa: E402
import turns  # noqa: E402
from document import document  # noqa: E402
from guests import Linux, Place, Task  # noqa: E402
from install import NotInstalled, Tools, say  # noqa: E402
from kernel import Kernel  # noqa: E402
from node import NileOs  # noqa: E402
from processes import CommandFailed, end_when_interrupted  # noqa: E402

# The nodes and the Linux guests, as the tuning file calls them.
NODES = ("nileos", "nileos-dedicated")
LINUX = ("linux", "linux-direct", "linux-isolated", "linux-checked")

# Which of the latter a quick run has, and how many quanta.
QUICK_LINUX = ("linux-isolated",)
QUICK_QUANTA = 500

RECORD = 100

# Files take so many times the data at most, and as much again that is written while they grow.
DISK = 4


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nile bench linux", allow_abbrev=False)
    parser.add_argument("--mebibytes", type=int, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = arguments(words)
    end_when_interrupted()
    try:
        return bench(options)
    except (CommandFailed, NotInstalled, OSError) as why:
        say(str(why))
        return 1
    except KeyboardInterrupt:
        say("interrupted; what this command had started has ended")
        return 130


def bench(options: argparse.Namespace) -> int:
    size = options.mebibytes << 20
    base = Path(os.environ.get("TMPDIR") or "/var/tmp")
    if (free := shutil.disk_usage(base).free) < DISK * size:
        say(f"it may take {DISK * size / 1e9:.1f} GB of disk, and {base} has {free / 1e9:.1f} GB")
        return 2
    built = Path(os.environ["CARGO_TARGET_DIR"])
    tables = tuning.read((HERE / "tuning.toml").read_text(), tuning.cpus())
    peers = tuning.read(tuning.FILE.read_text(), tuning.cpus())
    # The environment for plots is that of `bench peers`.
    tools = Tools(built / "peers", peers["packages"])
    work = Path(tempfile.mkdtemp(prefix="nile-linux-", dir=base))
    entries: list[turns.Entry] = []
    try:
        if options.report:
            tools.need_packages("matplotlib")
        place = Place(work, built / "release/nile", Path(os.environ["NILE_PACKAGES"]), tables)
        task = Task(size // RECORD, QUICK_QUANTA if options.quick else tables["fwq"]["quanta"])
        nodes = [turns.Entry(NileOs(name, place, options.control)) for name in NODES]
        names = QUICK_LINUX if options.quick else LINUX
        others = list(map(turns.Entry, linux(names, place, Kernel(built / "linux"))))
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
    for problem in result["problems"]:
        say(problem)
    return 1 if result["problems"] else 0


def linux(names: tuple[str, ...], place: Place, kernel: Kernel) -> list[Linux]:
    """The Linux guests, with what they boot."""
    kernel.install()
    program = place.work / "init"
    subprocess.run(["strip", "-o", program, os.environ["NILE_GUEST"]], check=True)
    archive = place.work / "initramfs"
    archive.write_bytes(initramfs.archive(program, kernel.modules()))
    release = kernel.release()
    return [Linux(name, place, kernel.image(), archive, release) for name in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
