"""What a contestant is to the harness."""

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import URLError

from harness.data import Data, Form, Job, WrongOutput
from harness.install import Tools
from harness.processes import Command, CommandFailed, Crew, Finished

# How a contestant fails.
FAILURES = (CommandFailed, WrongOutput, URLError)


@dataclass(frozen=True)
class Place:
    """Where contestants run: the folder for their files, and what has been built and installed."""

    work: Path
    built: Path
    packages: Path
    tools: Tools
    data: Data
    tuning: dict[str, Any]


class Peer(ABC):
    """A contestant. Between `begin` and `end` it sorts what it is told, any number of times."""

    # What `--only` and the tuning file call it.
    name: ClassVar[str]
    form: ClassVar[Form]
    # Whether it begins by taking a copy of the input, which is what it reads.
    copies: ClassVar[bool] = False
    # Its files take so many times the data at most, besides those that it reads.
    room: ClassVar[int] = 3

    def __init__(self, place: Place) -> None:
        self.place = place
        self.tuning: dict[str, Any] = place.tuning[self.name]
        self.crew = Crew(self.name, place.work / self.name)

    def install(self) -> None:  # noqa: B027
        """Brings what it needs, or raises `NotInstalled`; some need nothing."""

    @abstractmethod
    def version(self) -> str:
        """Which one it is."""

    def begin(self) -> None:  # noqa: B027
        """Starts what has to be up before a job comes, with its input; some need nothing."""

    def clear(self, job: Job) -> None:
        """Removes the output of a job, if it is there."""
        made = self.made(job)
        shutil.rmtree(made) if made.is_dir() else made.unlink(missing_ok=True)

    @abstractmethod
    def sort(self, job: Job) -> Command:
        """What sorts."""

    def own_seconds(self, finished: Finished) -> float:
        """What a job took once the program was there to do it, by the program's own clock."""
        return float(json.loads(finished.out.splitlines()[-1])["seconds"])

    @abstractmethod
    def output(self, job: Job) -> Sequence[Path] | Command:
        """The files with what it made, or a command that writes that."""

    def end(self) -> None:
        """Ends what was started."""
        self.crew.end()

    def input(self, job: Job) -> Path:
        """The file that it reads."""
        return self.place.data.file(self.form, job)

    def made(self, job: Job) -> Path:
        """The file or folder that it writes."""
        return self.crew.folder / f"{job.name}.out"
