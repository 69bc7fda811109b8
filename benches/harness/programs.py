"""The contestants that are one process on Linux: the hand-tuned reference and GNU sort."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.data import Form, Job
from harness.peer import Peer
from harness.processes import Command, Finished


class Reference(Peer):
    """The sort that NileOS's is measured against in `./nile bench sort`, too. Its output is written
    over, and not removed, so that its pages are there: as those of a node's disk are."""

    name = "reference"
    form = Form.BINARY

    def version(self) -> str:
        return "of this source tree"

    def clear(self, job: Job) -> None:
        pass

    def sort(self, job: Job) -> Command:
        program = self.place.built / "nile-sort-reference"
        return Command([program, self.input(job), self.made(job), *self.tuning["options"]], {})

    def output(self, job: Job) -> Sequence[Path]:
        return [self.made(job)]


class GnuSort(Peer):
    """`sort`, whose job begins when the process does."""

    name = "gnu-sort"
    form = Form.ASCII

    def version(self) -> str:
        said = subprocess.run(["sort", "--version"], capture_output=True, text=True, check=True)
        return said.stdout.splitlines()[0].removeprefix("sort ")

    def sort(self, job: Job) -> Command:
        files = ["--temporary-directory", self.crew.folder, "--output", self.made(job)]
        words = ["sort", *self.tuning["options"], *files, self.input(job)]
        return Command(words, self.tuning["environment"])

    def own_seconds(self, finished: Finished) -> float:
        return finished.seconds

    def output(self, job: Job) -> Sequence[Path]:
        return [self.made(job)]
