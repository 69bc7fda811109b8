"""A contestant's turn: it gets the edges that there are, and then new ones at a steady rate, among
them those that make a new vertex the first. What counts is when edges were to come, not when there
was room for them, and when a publication with them was seen."""

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from harness.processes import CommandFailed, Memory
from stream.contestants import Contestant

# Edges come in pieces, so many a second.
PIECES = 200

# It is looked so often, in a second, how stale a publication is.
LOOKS = 1000

# How long a contestant may take for all edges that there are, and until the last are in.
LIMIT_SECONDS = 600

# How far ranks in floating point are from exact ones, in sum.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Known:
    """What is known of the edges."""

    folder: Path
    vertices: int
    base: int
    new: int
    planted: int
    vertex: int
    ranks: dict[int, float]

    @property
    def edges(self) -> int:
        return self.base + self.new + self.planted


def known(folder: Path) -> Known:
    told = json.loads((folder / "known.json").read_text())
    told["ranks"] = {int(vertex): rank for vertex, rank in told["ranks"].items()}
    return Known(folder, **told)


@dataclass(frozen=True)
class Publication:
    """When a publication was seen, how many edges are in, the bound of its errors, and its first
    vertex."""

    at: float
    events: int
    error: float
    first: int | None


@dataclass(frozen=True)
class Turn:
    """What came of a turn. Times in seconds."""

    # From the first edge until all that there are were in.
    ingest_seconds: float
    # Of good publications while new edges came: half of the time, 99% of it, and always at most so
    # stale.
    staleness: tuple[float, float, float]
    # From when the edges were to come that make a vertex the first, until it was.
    planted_seconds: float
    publications: int
    bytes: int
    # How stale it was at each look.
    looks: Sequence[float] = field(repr=False, default=())


class Watch(threading.Thread):
    """Reads publications as they come."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__(daemon=True)
        self.source = source
        self.seen: list[Publication] = []
        # The last line that is no publication.
        self.rest: dict[str, Any] = {}
        self.changed = threading.Condition()
        self.is_over = False

    def run(self) -> None:
        for line in self.source:
            now = time.monotonic()
            told = json.loads(line)
            with self.changed:
                if "top" in told:
                    first = told["top"][0] if told["top"] else None
                    self.seen.append(Publication(now, told["events"], told["error"], first))
                else:
                    self.rest = told
                self.changed.notify()
        with self.changed:
            self.is_over = True
            self.changed.notify()

    def last(self) -> dict[str, Any]:
        """The last line, when no more come."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_over, LIMIT_SECONDS)
            return self.rest

    def until(self, events: int, error: float) -> Publication:
        """Waits for a publication with so many edges that is good enough."""

        def found() -> Publication | None:
            good = (it for it in self.seen if it.events >= events and it.error <= error)
            return next(good, None)

        with self.changed:
            self.changed.wait_for(lambda: found() or self.is_over, LIMIT_SECONDS)
            if publication := found():
                return publication
            last = self.seen[-1] if self.seen else None
        raise CommandFailed(f"no publication has {events} edges within {error}; the last: {last}")


def take(contestant: Contestant, edges: Known, rate: int) -> Turn:
    """A turn of a contestant that nothing else runs beside. Who gives wrong ranks fails."""
    incoming, publications = contestant.begin()
    memory = Memory(contestant.crew)
    memory.start()
    try:
        watch = Watch(publications)
        watch.start()
        error = contestant.place.error
        begun = time.monotonic()
        write(incoming, (edges.folder / "base").read_bytes())
        ingested = watch.until(edges.base, error).at - begun

        stream = Stream(edges, rate)
        stream.write(incoming)
        all_in = watch.until(edges.edges, error)
        incoming.close()
        compare(edges, contestant.ranks(watch.last), error)
        seen = list(watch.seen)
    except CommandFailed as failed:
        raise CommandFailed(f"{failed}{contestant.said()}") from failed
    finally:
        most = memory.end()
    good = [it for it in seen if it.error <= error]
    looks = stream.staleness(good, all_in.at)
    return Turn(
        ingest_seconds=ingested,
        staleness=(part(looks, 0.5), part(looks, 0.99), max(looks)),
        planted_seconds=stream.planted_seconds(good),
        publications=sum(stream.begun <= it.at <= all_in.at for it in good),
        bytes=most,
        looks=looks,
    )


class Stream:
    """New edges, at a steady rate. When half of them have come, those that make a vertex the first
    come all at once."""

    def __init__(self, edges: Known, rate: int) -> None:
        self.edges = edges
        self.rate = rate
        self.begun = 0.0
        new = (edges.folder / "new").read_bytes().splitlines(keepends=True)
        planted = (edges.folder / "planted").read_bytes().splitlines(keepends=True)
        self.half, self.planted = len(new) // 2, len(planted)
        self.count = len(new) + len(planted)
        each = max(rate // PIECES, 1)
        # How many have come with each piece, and the piece.
        self.pieces: list[tuple[int, bytes]] = []
        parts = ((new[: self.half], each), (planted, len(planted)), (new[self.half :], each))
        for lines, step in parts:
            for at in range(0, len(lines), step):
                piece = lines[at : at + step]
                before = self.pieces[-1][0] if self.pieces else 0
                self.pieces.append((before + len(piece), b"".join(piece)))

    def at(self, count: int) -> float:
        """When the last of the first so many new edges is to come."""
        steady = min(count, self.half) + max(count - self.half - self.planted, 0)
        return self.begun + steady / self.rate

    def write(self, incoming: BinaryIO) -> None:
        self.begun = time.monotonic()
        for count, piece in self.pieces:
            time.sleep(max(self.at(count) - time.monotonic(), 0))
            write(incoming, piece)

    def staleness(self, seen: Sequence[Publication], until: float) -> list[float]:
        """How stale what was seen last is, at each look from the first edge on: for how long the
        first edge has waited that it lacks."""
        looks, next_one, lacks = [], 0, 0
        now = self.begun
        while now < until:
            while next_one < len(seen) and seen[next_one].at <= now:
                lacks = max(lacks, seen[next_one].events - self.edges.base)
                next_one += 1
            came = self.at(lacks + 1)
            looks.append(max(now - came, 0.0) if lacks < self.count else 0.0)
            now += 1 / LOOKS
        return looks

    def planted_seconds(self, seen: Sequence[Publication]) -> float:
        """How long it takes from the edges that make a vertex the first until it is that."""
        for it in seen:
            if it.at > self.begun and it.first == self.edges.vertex:
                return max(it.at - self.at(self.half), 0.0)
        raise WrongRanks(f"the vertex {self.edges.vertex} was never seen as the first")


class WrongRanks(Exception):
    """Ranks that are farther from the exact ones than they say."""


def compare(edges: Known, ranks: dict[int, float], error: float) -> None:
    """Refuses ranks that are farther from the exact ones than they may be."""
    known = edges.ranks.items()
    away = sum(abs(ranks[vertex] - exact) for vertex, exact in known if vertex in ranks)
    if away > error + ROUNDING:
        raise WrongRanks(f"the highest ranks are wrong by {away:.2e}, and may be by {error:.0e}")
    if len(ranks) < len(edges.ranks) or next(iter(ranks)) != edges.vertex:
        first = next(iter(ranks), None)
        raise WrongRanks(f"{len(ranks)} ranks, {first} first; it is to be {edges.vertex}")


def part(values: Sequence[float], of: float) -> float:
    """The least that so large a part of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(of * len(ordered)), len(ordered) - 1)]


def write(incoming: BinaryIO, text: bytes) -> None:
    try:
        incoming.write(text)
        incoming.flush()
    except BrokenPipeError:
        raise CommandFailed("it takes no more edges") from None
