"""A benchmark as a program. Results go to standard output, progress to standard error. Exit status
0: all is as promised, 1: not, 2: the request was wrong, 130: interrupted; whatever the end, what
was started has ended and its files are gone."""

import os
import shutil
import signal
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType
from typing import Any

from harness import machine, record
from harness.data import Data, Job
from harness.install import NotInstalled, Tools, say
from harness.peer import Place
from harness.processes import CommandFailed

SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


class WrongRequest(Exception):
    """A request that cannot be fulfilled; nothing was started."""


def parser(name: str) -> ArgumentParser:
    """What reads the arguments of a benchmark; those that all have are known."""
    parser = ArgumentParser(prog=f"nile bench {name}", allow_abbrev=False)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--json", action="store_true")
    record.argument(parser)
    return parser


def run(bench: Callable[[], int]) -> int:
    """Runs a benchmark; its exit status."""
    for what in SIGNALS:
        signal.signal(what, interrupted)
    try:
        return bench()
    except WrongRequest as why:
        say(str(why))
        return 2
    except (CommandFailed, NotInstalled, OSError) as why:
        say(str(why))
        return 1
    except KeyboardInterrupt:
        say("interrupted; what this command had started has ended")
        return 130


def interrupted(number: int, frame: FrameType | None) -> None:
    """Ends what is under way once; what clears away is not disturbed."""
    for what in SIGNALS:
        signal.signal(what, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def place(
    name: str, settings: dict[str, Any], jobs: list[Job], disk: float, memory: float
) -> Iterator[Place]:
    """Where contestants run, below a folder that goes with it; refuses to begin where there are not
    so many bytes of disk and memory."""
    base = folder_for(disk, memory)
    built = Path(os.environ["CARGO_TARGET_DIR"])
    programs = Path(os.environ["NILE_PROGRAMS"])
    tools = Tools(built / "peers", settings["packages"])
    work = Path(mkdtemp(prefix=f"nile-{name}-", dir=base))
    data = Data(work / "data", jobs, programs / "nile", tools)
    try:
        packages = Path(os.environ["NILE_PACKAGES"])
        yield Place(work, programs, packages, tools, data, settings)
    finally:
        data.crew.end()
        shutil.rmtree(work, ignore_errors=True)


def folder_for(disk: float, memory: float) -> Path:
    """Where files go, which is not in memory."""
    base = Path(os.environ.get("TMPDIR") or "/var/tmp")
    free = shutil.disk_usage(base).free
    if free < disk:
        raise WrongRequest(
            f"it may take {disk / 1e9:.1f} GB of disk, and {base} has {free / 1e9:.1f} GB free; "
            "set TMPDIR to another folder, or sort less"
        )
    free = machine.available_memory()
    if free < memory:
        raise WrongRequest(
            f"it may take {memory / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free; "
            "sort less"
        )
    return base
