"""The records of a run, which every contestant sorts: generated once by NileOS, and brought into
the form that a contestant reads before any time is taken. Their checksum is that of `valsort` and
`teravalidate`, taken by a check of its own (`tools/check_results.py`)."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from harness.install import HERE, Tools, say
from harness.processes import Command, Crew

CHECK = HERE.parent.parent / "tools/check_results.py"

RECORD = 100

# How long it may take to generate or to convert.
LIMIT_SECONDS = 3600

# Bytes that are copied at once.
PIECE = 1 << 20


class Form(Enum):
    """What a contestant reads."""

    BINARY = "binary"
    ASCII = "ascii"
    # Two columns of bytes, key and value, uncompressed.
    PARQUET = "parquet"


@dataclass(frozen=True)
class Job:
    """What is sorted: the first so many of the records."""

    name: str
    records: int

    @property
    def bytes(self) -> int:
        return self.records * RECORD


@dataclass(frozen=True)
class Records:
    """What is known of some records: how many, the sum of their CRC-32s, and whether a key is less
    than the one before it."""

    count: int
    checksum: str
    unordered: int
    cut_bytes: int


class WrongOutput(Exception):
    """What a contestant made is not the sorted input."""


def look_at(output: Sequence[Path] | Command) -> Records:
    """What is in files, or what a command writes."""
    check = [sys.executable, str(CHECK), "terasort"]
    if isinstance(output, Command):
        words = [str(word) for word in output.words]
        writer = subprocess.Popen(
            words,
            env=os.environ | dict(output.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        done = subprocess.run([*check, "/dev/stdin"], stdin=writer.stdout, capture_output=True)
        if writer.stdout:
            writer.stdout.close()
        if status := writer.wait():
            raise WrongOutput(f"its output cannot be read: {words[0]} ended with {status}")
    else:
        done = subprocess.run([*check, *map(str, output)], capture_output=True)
    if done.returncode > 1:
        raise WrongOutput(f"its output cannot be read: {done.stderr.decode().strip()}")
    said = json.loads(done.stdout)
    return Records(said["records"], said["checksum"], said["unordered"], said["cut_bytes"])


def compare(made: Records, given: Records) -> None:
    """Refuses an output that is not the input in order."""
    if made.cut_bytes:
        raise WrongOutput(f"its output ends with {made.cut_bytes} bytes of a record")
    if made.count != given.count:
        raise WrongOutput(f"its output has {made.count} records of {given.count}")
    if made.checksum != given.checksum:
        raise WrongOutput(f"its output has checksum {made.checksum}, not {given.checksum}")
    if made.unordered:
        raise WrongOutput(f"{made.unordered} records of its output are out of order")


class Data:
    """The records in `folder`, for these jobs, of which the first has all of them."""

    def __init__(self, folder: Path, jobs: Sequence[Job], nile: Path, tools: Tools) -> None:
        self.crew = Crew("data", folder)
        self.jobs = jobs
        self.nile = nile
        self.tools = tools
        self.known: dict[tuple[Form, Job], Records] = {}

    def file(self, form: Form, job: Job) -> Path:
        """Where they lie in this form."""
        return self.crew.folder / f"{job.name}.{form.value}"

    def make(self, forms: set[Form]) -> None:
        """Makes the files in each form."""
        self.crew.folder.mkdir(parents=True)
        if Form.PARQUET in forms:
            forms = forms | {Form.BINARY}
        for form in Form:
            if form not in forms:
                continue
            say(f"making {self.jobs[0].records:,} records, {form.value}")
            if form is Form.PARQUET:
                self.convert()
            else:
                self.generate(form)

    def generate(self, form: Form) -> None:
        whole, *others = self.jobs
        file = self.file(form, whole)
        cluster = ["--cluster", self.crew.name]
        run = ["run", "terasort", *cluster, "--size", kibi(whole.bytes), "--format", form.value]
        own: list[str | Path] = [
            "--machine",
            "hosted",
            "--nodes",
            "1",
            "--disk-folder",
            self.crew.folder,
        ]
        try:
            self.do([self.nile, *run, *own, "--keep", "--json"])
            self.do([self.nile, "get", "terasort.input", file, *cluster])
        finally:
            self.do([self.nile, "down", *cluster])
        # It may be a few more: sizes are in KiB.
        os.truncate(file, whole.bytes)
        for job in others:
            with file.open("rb") as all_of_them, self.file(form, job).open("wb") as made:
                copy(all_of_them, made, job.bytes)
        for job in self.jobs:
            self.known[form, job] = look_at([self.file(form, job)])

    def convert(self) -> None:
        for job in self.jobs:
            source, made = self.file(Form.BINARY, job), self.file(Form.PARQUET, job)
            self.do([self.tools.python, HERE / "jobs/to_parquet.py", source, made])
            self.known[Form.PARQUET, job] = self.known[Form.BINARY, job]

    def forget(self, read: Form | None) -> None:
        """Has Linux forget what it keeps of the files, but for those in the form that is read."""
        # What is still to be written cannot be forgotten.
        os.sync()
        for form, job in self.known:
            if form is not read:
                with self.file(form, job).open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def do(self, words: Sequence[str | Path]) -> None:
        environment = {"XDG_RUNTIME_DIR": str(self.crew.folder)}
        self.crew.run(Command(words, environment), LIMIT_SECONDS)

    def check(self, output: Sequence[Path] | Command, form: Form, job: Job) -> None:
        """Refuses an output that is not the sorted records of this job."""
        compare(look_at(output), self.known[form, job])


def kibi(count: int) -> str:
    """Bytes as a size that the command line takes, rounded up."""
    return f"{-(-count // 1024)}K"


def copy(source: BinaryIO, target: BinaryIO, count: int) -> None:
    """Copies the next `count` bytes, or what there is of them."""
    while piece := source.read(min(count, PIECE)):
        target.write(piece)
        count -= len(piece)
