"""Clients: each draws commands, gives them to the cluster, and tells the histories of names what
was said of them."""

import argparse
import collections
import json
import random
import signal
import threading
import time
from collections.abc import Callable

import history
from history import DONE, REFUSED, Broken, History, Operation, Value
from place import BUFFER, JOB_PATIENCE_SECONDS, PATIENCE_SECONDS, End, Place

import inputs  # noqa: E402, of tools/differential
import models  # noqa: E402

# Around what sizes there is something to do wrong: nothing, a unit of the store, a call, a buffer,
# what a node takes at once, and a window of a pipe.
LIMITS = (0, 4096, 48 << 10, BUFFER, 4 * BUFFER, 2 << 20, 8 << 20)

NAMES = (
    "a", "b", "c", "logs/2026", "two words", "Größe", ".hidden", "0-of-1", "n" * 128, "a/0-of-x",
)  # fmt: skip

# What outputs of jobs are called, and what is said of one whose job still runs.
COUNTS = "counts "
MAKING = "is being made by job"

# What a change says that another one has overtaken.
RACES = (
    "was put by somebody else meanwhile",
    "was put and removed by others meanwhile",
    "was removed by somebody else meanwhile",
    "was replaced by somebody else meanwhile",
)
UNKNOWN = "the nodes that keep the names of datasets went away in the midst: whether"

# What a wrong request says that is none while something is broken.
AWAY = ("copies want as many nodes", "no node of the cluster keeps", "no node of the cluster runs")

# What may fail beside one node that is away: a job that it dies in the midst of (CAVEATS.md), and
# what wants all three.
JOBS = ("wordcount", "terasort")
THREE = "3 copies want as many nodes"

KILLS_FROM_SECONDS = 240


class Soak:
    """What all clients share."""

    def __init__(
        self, place: Place, options: argparse.Namespace, tampering: str | None
    ) -> None:
        self.place = place
        self.seed = options.seed
        self.most = options.most << 10
        # What a command that was killed leaves stays for minutes: a short run kills none.
        self.kills = options.seconds >= KILLS_FROM_SECONDS
        self.tampering = tampering
        self.lock = threading.Condition()
        self.histories: dict[str, History] = {}
        self.values = 0
        # When the last fault was over, or none while there is one.
        self.calm_since: float | None = time.monotonic()
        # Whether commands may fail while the last fault lasts, and until all is well again.
        self.may_fail = False
        # The longest that something took to be readable after a fault.
        self.slowest = 0.0
        self.is_paused = False
        self.at_work = 0
        self.is_over = False
        self.broken: list[str] = []
        self.last: collections.deque[str] = collections.deque(maxlen=60)
        self.counts: collections.Counter[str] = collections.Counter()
        self.begun = time.monotonic()

    def say(self, text: str) -> None:
        line = f"{time.monotonic() - self.begun:8.1f}  {text}"
        self.last.append(line)
        print(line, flush=True)

    def note(self, text: str) -> None:
        self.last.append(f"{time.monotonic() - self.begun:8.1f}  {text}")

    def fails(self, why: str) -> None:
        with self.lock:
            self.broken.append(why)
            self.is_over = True
            self.lock.notify_all()

    def history(self, name: str) -> History:
        return self.histories.setdefault(name, History(name))

    def content(self, length: int) -> tuple[Value, bytes]:
        with self.lock:
            self.values += 1
            number = self.values
        data = random.Random(f"{self.seed} value {number}").randbytes(length)
        value = Value(number, length, lambda got: got == data)
        return value, data

    def is_calm(self, since: float) -> bool:
        return self.calm_since is not None and self.calm_since < since

    def pause(self) -> None:
        """Waits until no client is at work; none begins anything until `resume`."""
        with self.lock:
            self.is_paused = True
            self.lock.wait_for(lambda: self.at_work == 0)

    def resume(self) -> None:
        with self.lock:
            self.is_paused = False
            self.lock.notify_all()

    def enter(self) -> bool:
        with self.lock:
            self.lock.wait_for(lambda: self.is_over or not self.is_paused)
            self.at_work += not self.is_over
            return not self.is_over

    def leave(self) -> None:
        with self.lock:
            self.at_work -= 1
            self.lock.notify_all()


class Client(threading.Thread):
    """One user of the cluster."""

    def __init__(self, soak: Soak, number: int) -> None:
        super().__init__(name=f"client {number}")
        self.soak = soak
        self.place = soak.place
        self.number = number
        self.dice = random.Random(f"{soak.seed} client {number}")
        self.folder = self.place.path / f"client{number}"
        self.folder.mkdir()
        # What a command has left that could not remove it.
        self.left: list[str] = []
        self.own = [name for at, name in enumerate(NAMES) if at % 3 == number % 3]

    def run(self) -> None:
        while self.soak.enter():
            try:
                self.step()
            except Broken as broken:
                self.soak.fails(f"client {self.number}: {broken}")
            except Exception as error:  # noqa: BLE001, the harness itself is wrong
                self.soak.fails(f"client {self.number}: {error!r}")
                raise
            finally:
                self.soak.leave()
            time.sleep(self.dice.random() * 0.2)

    def step(self) -> None:
        kinds: tuple[Callable[[], None], ...] = (
            *[self.put] * 8, *[self.get] * 8, *[self.remove] * 3, *[self.list] * 3,
            *[self.wordcount] * 2, self.terasort,
        )  # fmt: skip
        self.dice.choice(kinds)()

    def name(self) -> str:
        return self.dice.choice(self.own if self.dice.random() < 0.75 else NAMES)

    def command(
        self, *words: object, kills: bool = False, patience: float = PATIENCE_SECONDS, **more: bytes
    ) -> End:
        kill = None
        if kills and self.soak.kills and self.dice.random() < 0.05:
            kill = (self.dice.uniform(0.1, 2), self.dice.choice((signal.SIGKILL, signal.SIGINT)))
        end = self.place.run(*words, kill=kill, patience=patience, **more)
        said = " ".join(str(it) if len(str(it)) < 40 else f"{str(it)[:8]}…" for it in words)
        self.soak.note(f"client {self.number}: {said}: {end}")
        if end.seconds > patience + 5 or (end.status < 0 and not end.was_killed):
            raise Broken(f"nile {said} does not end within {patience:.0f} s: {end}")
        if end.status not in (0, 1, 2, 3) and not end.was_killed:
            raise Broken(f"nile {said}: {end}\n{end.err}")
        return end

    def begin(self, name: str, operation: Operation) -> tuple[History, Operation, float]:
        with self.soak.lock:
            known = self.soak.history(name)
            return known, known.begin(operation), time.monotonic()

    def excused(self, end: End, since: float, is_raced: bool, what: str) -> None:
        """That a command may fail which has changed nothing."""
        self.soak.counts[f"{what} failed"] += 1
        if is_raced or end.was_killed:
            return
        if self.soak.is_calm(since):
            raise Broken(f"{what} fails though nothing is broken: {end}")
        is_documented = end.status == 3 or what in JOBS or THREE in end.err
        if not (self.soak.may_fail or is_documented):
            raise Broken(f"{what} fails though two nodes live: {end}")
        self.soak.say(f"  {what} fails meanwhile: {end}")

    # What clients do.

    def put(self) -> None:
        name, replaces = self.name(), self.dice.random() < 0.5
        value, data = self.soak.content(self.length())
        if self.soak.tampering == "byte" and data:
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.store(name, value, data, replaces)

    def length(self) -> int:
        if self.dice.random() < 0.5:
            return self.dice.randrange(200 << 10)
        limit = self.dice.choice([it for it in LIMITS if it < self.soak.most])
        return max(0, limit * self.dice.randrange(1, 3) + self.dice.randint(-1, 1))

    def store(self, name: str, value: Value, data: bytes, replaces: bool) -> None:
        words = ["put", "/dev/stdin", name, "--copies", self.dice.choice((2, 2, 2, 3))]
        words += ["--replace"] if replaces else []
        if self.dice.random() < 0.6:
            # Out of a file, not out of a pipe.
            words[1] = self.folder / "put"
            words[1].write_bytes(data)
        known, operation, since = self.begin(name, history.put(value, replaces))
        end = self.command(*words, kills=True, given=data)
        with self.soak.lock:
            self.change_ended(known, operation, since, end, "there is a dataset")
        self.soak.counts["put"] += 1

    def change_ended(
        self, known: History, operation: Operation, since: float, end: End, refusal: str
    ) -> None:
        what = operation.what.split()[0]
        if end.status == 0 or (end.status == 3 and what == "rm"):
            known.ended(operation, DONE, lambda came: came == DONE)
        elif end.status == 2 and refusal in end.err:
            known.ended(operation, REFUSED, lambda came: came == REFUSED)
        elif end.was_killed or UNKNOWN in end.err:
            if not end.was_killed:
                self.excused(end, since, operation.is_raced, what)
            known.unknown(operation, str(end))
        else:
            is_raced = operation.is_raced and any(race in end.err for race in RACES)
            if end.status == 2 and not any(away in end.err for away in AWAY):
                raise Broken(f"{what} {known.name!r} is no wrong request: {end}")
            known.failed(operation, str(end))
            self.excused(end, since, is_raced, what)

    def remove(self) -> None:
        self.drop(self.name())

    def drop(self, name: str) -> None:
        known, operation, since = self.begin(name, history.remove())
        end = self.command("rm", name, kills=True)
        with self.soak.lock:
            if name.startswith(COUNTS) and MAKING in end.err:
                known.failed(operation, str(end))
            else:
                self.change_ended(known, operation, since, end, "no dataset `")
        self.soak.counts["rm"] += 1
        if self.soak.tampering == "name" and end.status == 0:
            # Behind the model's back.
            (self.folder / "put").write_bytes(b"risen")
            self.command("put", self.folder / "put", name)

    def get(self) -> None:
        self.fetch(self.name())

    def fetch(self, name: str) -> bool:
        """Whether it was there, or was said not to be."""
        to = self.folder / "got"
        to.unlink(missing_ok=True)
        known, operation, since = self.begin(name, history.read())
        end = self.command("get", name, to)
        with self.soak.lock:
            self.soak.counts["get"] += 1
            if end.status == 0:
                data = to.read_bytes()
                values = [it for it in known.possible() if it is not None and it.is_right(data)]
                shown = f"{len(data)} bytes" + "".join(f", as {it}" for it in values)
                known.ended(
                    operation, shown, lambda now: now is not None and now.is_right(data)
                )
                return True
            if end.status == 2 and "no dataset `" in end.err:
                known.ended(operation, "no dataset", lambda now: now is None)
                return True
            known.failed(operation, str(end))
            if end.status == 2 and MAKING in end.err and name.startswith(COUNTS):
                return True
            self.excused(end, since, operation.is_raced, f"get {name!r}")
            return False

    def list(self) -> None:
        self.listed()

    def listed(self) -> bool:
        """Whether all is there, whole, and every node has answered."""
        with self.soak.lock:
            reads = {it: it.begin(history.read()) for it in self.soak.histories.values()}
            since = time.monotonic()
        end = self.command("ls", "--all", "--json")
        with self.soak.lock:
            self.soak.counts["ls"] += 1
            if end.status not in (0, 3):
                for known, operation in reads.items():
                    known.failed(operation, str(end))
                self.excused(end, since, False, "ls")
                return False
            found = {it["name"]: it for it in json.loads(end.out)["datasets"]}
            for known, operation in reads.items():
                there = found.get(known.name)

                def is_it(now: Value | None, there: dict | None = there) -> bool:
                    if now is None or there is None:
                        return now is None and there is None
                    return now.bytes in (None, there["bytes"])

                shown = "not listed" if there is None else f"listed, {there['bytes']} bytes"
                known.ended(operation, shown, is_it)
            if end.status == 3:
                self.excused(end, since, False, "ls")
            return end.status == 0 and all(it["whole"] for it in found.values())

    def wordcount(self) -> None:
        """A job whose output is kept: it is there with the right counts, or not at all."""
        name = f"{COUNTS}{self.number}"
        text = inputs.text(self.dice, self.dice.randrange(100 << 10))
        file = self.folder / "text"
        file.write_bytes(text)
        with self.soak.lock:
            self.soak.values += 1
            number = self.soak.values
        parts = self.place.shape.parts
        value = Value(number, None, lambda got: models.wordcount(text, got, parts) is None)
        known, operation, since = self.begin(name, history.put(value, False))
        end = self.command(
            "run", "wordcount", file, "--output", name, "--copies", 2, "--json", kills=True,
            patience=JOB_PATIENCE_SECONDS,
        )  # fmt: skip
        with self.soak.lock:
            self.soak.counts["wordcount"] += 1
            if end.status == 0:
                known.ended(operation, DONE, lambda came: came == DONE)
            elif end.status == 2 and "there is a dataset" in end.err:
                known.ended(operation, REFUSED, lambda came: came == REFUSED)
            elif end.status == 2 and MAKING in end.err:
                known.failed(operation, str(end))
            else:
                if not end.was_killed:
                    self.excused(end, since, False, "wordcount")
                known.unknown(operation, str(end))
        if self.dice.random() < 0.8:
            self.fetch(name)
        if self.dice.random() < 0.8:
            self.drop(name)

    def terasort(self) -> None:
        """Three jobs, the last of which says whether the second has sorted; nothing stays."""
        name, since = f"tera{self.number}", time.monotonic()
        if not all(self.is_gone(left) for left in list(self.left)):
            return
        size = f"{self.dice.randrange(1, 400)}K"
        end = self.command(
            "run", "terasort", "--size", size, "--name", name, "--copies", 2, "--json",
            patience=JOB_PATIENCE_SECONDS,
        )  # fmt: skip
        with self.soak.lock:
            self.soak.counts["terasort"] += 1
        if end.status == 0:
            return
        self.excused(end, since, False, "terasort")
        self.left = [f"{name}.{part}" for part in ("input", "output", "report")]
        for left in list(self.left):
            self.is_gone(left)

    def is_gone(self, name: str) -> bool:
        """Whether what a command could not remove is removed now."""
        end = self.command("rm", name)
        is_gone = end.status in (0, 3) or "no dataset `" in end.err
        if is_gone:
            self.left.remove(name)
        return is_gone
