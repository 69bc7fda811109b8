"""Streams of edges that come and go."""

import random
from dataclasses import dataclass, field

# Edges of a vertex have this many on average, as in the Graph500's and GAP's Kronecker graphs.
KRONECKER_DEGREE = 16


@dataclass(frozen=True)
class Event:
    """An edge is there from now on, or goes."""

    source: int
    sequence: int
    time: int
    edge: tuple[int, int]
    removes: bool

    def __str__(self) -> str:
        return f"{'-' if self.removes else ''}{self.edge[0]} {self.edge[1]} {self.time}"


@dataclass(frozen=True)
class Stream:
    """What the sources of a graph say, each in the order of its own events."""

    number: int
    kind: str
    error: float
    sources: dict[int, list[Event]] = field(repr=False)
    # Whose events come once more at the end.
    again: tuple[int, ...]
    # Into how many parts the graph is divided.
    parts: int

    @staticmethod
    def drawn(number: int) -> "Stream":
        dice = random.Random(f"stream {number}")
        kind = dice.choice(tuple(KINDS))
        edges = KINDS[kind](dice)
        names = named(dice, edges)
        sources: dict[int, list[Event]] = {it: [] for it in range(1, dice.randrange(2, 5))}
        # Times are few, so that events of one time are told apart by source and sequence.
        latest = dice.choice((3, 1000, 10**12))
        known: list[tuple[int, int]] = []
        for edge in edges:
            removes = bool(known) and dice.random() < 0.15
            edge = dice.choice(known) if removes or known and dice.random() < 0.05 else edge
            known.append(edge)
            source = dice.choice(tuple(sources))
            told = sources[source]
            ends = (names[edge[0]], names[edge[1]])
            told.append(Event(source, len(told), dice.randrange(latest), ends, removes))
        again = tuple(it for it in sources if dice.random() < 0.3)
        error = dice.choice((1e-2, 1e-3, 1e-4, 1e-6))
        return Stream(number, kind, error, sources, again, dice.choice((1, 2, 3)))

    def edges(self) -> tuple[set[int], set[tuple[int, int]]]:
        """All vertices that were ever named, and the edges that are there in the end."""
        last: dict[tuple[int, int], Event] = {}
        for event in (it for told in self.sources.values() for it in told):
            when = (event.time, event.source, event.sequence)
            old = last.get(event.edge)
            if old is None or (old.time, old.source, old.sequence) < when:
                last[event.edge] = event
        there = {edge for edge, event in last.items() if not event.removes}
        return {end for edge in last for end in edge}, there


def named(dice: random.Random, edges: list[tuple[int, int]]) -> dict[int, int]:
    """Any numbers for vertices."""
    most = dice.choice((1 << 20, 1 << 64))
    names = dict.fromkeys(end for edge in edges for end in edge)
    chosen: set[int] = set()
    while len(chosen) < len(names):
        chosen.add(dice.randrange(most))
    shuffled = sorted(chosen)
    dice.shuffle(shuffled)
    return dict(zip(names, shuffled))


def even(dice: random.Random) -> list[tuple[int, int]]:
    """Any vertex leads to any, to itself, too."""
    vertices = dice.randrange(2, 400)
    number = dice.randrange(1, 8 * vertices)
    return [(dice.randrange(vertices), dice.randrange(vertices)) for _ in range(number)]


def kronecker(dice: random.Random) -> list[tuple[int, int]]:
    """A few vertices have most edges, by the parameters of GAP and Graph500."""
    scale = dice.randrange(3, 12)

    def end() -> tuple[int, int]:
        row = column = 0
        for _ in range(scale):
            at = dice.random()
            row = 2 * row + (at >= 0.57 + 0.19)
            column = 2 * column + (0.57 <= at < 0.57 + 0.19 or at >= 0.57 + 0.19 + 0.19)
        return row, column

    return [end() for _ in range(KRONECKER_DEGREE << scale)]


def star(dice: random.Random) -> list[tuple[int, int]]:
    """All lead to one, which leads nowhere, or to all."""
    vertices = dice.randrange(2, 300)
    back = dice.random() < 0.5
    return [edge for it in range(1, vertices) for edge in ((it, 0), *(((0, it),) if back else ()))]


def ring(dice: random.Random) -> list[tuple[int, int]]:
    """Rings beside each other."""
    edges, first = [], 0
    for _ in range(dice.randrange(1, 5)):
        length = dice.randrange(1, 100)
        edges += [(first + it, first + (it + 1) % length) for it in range(length)]
        first += length
    return edges


def chain(dice: random.Random) -> list[tuple[int, int]]:
    """One behind the other: what the last one has comes from afar."""
    return [(it, it + 1) for it in range(dice.randrange(1, 300))]


KINDS = {"even": even, "kronecker": kronecker, "star": star, "ring": ring, "chain": chain}
