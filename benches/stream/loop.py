"""`python -m stream.loop LIBRARY VERTICES ERROR`: edges come as lines; a library computes the ranks
of all that have come, again and again, as long as some are not in. Each publication is a line of
JSON: how many edges are in, the bound of all errors, the first vertex. When no more come, the last
line has the highest ranks."""

import json
import os
import sys
import threading
from typing import Any

import numpy as np

from stream.edges import TOP
from stream.ranks import DAMPING, Layout

PIECE = 1 << 20


class Incoming(threading.Thread):
    """What has come and is not taken yet."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.pieces: list[bytes] = []
        self.changed = threading.Condition()
        self.is_over = False

    def run(self) -> None:
        rest = b""
        while piece := os.read(0, PIECE):
            whole, line_end, rest_after = (rest + piece).rpartition(b"\n")
            rest = rest_after
            with self.changed:
                self.pieces.append(whole + line_end)
                self.changed.notify()
        with self.changed:
            self.is_over = True
            self.changed.notify()

    def take(self) -> np.ndarray | None:
        """The edges that have come, a row for each; waits for some. `None`: no more come."""
        with self.changed:
            self.changed.wait_for(lambda: any(self.pieces) or self.is_over)
            text = b"".join(self.pieces)
            self.pieces.clear()
        if not text:
            return None
        return np.fromstring(text, dtype=np.int64, sep=" ").reshape(-1, 2)


class Scipy:
    """Power iteration that goes on from the last ranks."""

    def __init__(self, vertices: int, error: float) -> None:
        self.layout = Layout(vertices)
        self.ranks = np.full(vertices, 1 / vertices)
        self.error = error

    def add(self, edges: np.ndarray) -> None:
        self.layout.add(edges[:, 0], edges[:, 1])

    def rank(self) -> tuple[np.ndarray, float]:
        self.ranks, bound = self.layout.settle(self.ranks, self.error)
        return self.ranks, bound


class Networkit:
    """NetworKit's PageRank, from the start each time."""

    def __init__(self, vertices: int, error: float) -> None:
        import networkit

        self.library = networkit
        self.graph = networkit.Graph(vertices, directed=True)
        self.error = error

    def add(self, edges: np.ndarray) -> None:
        self.graph.addEdges((np.ascontiguousarray(edges[:, 0]), np.ascontiguousarray(edges[:, 1])))

    def rank(self) -> tuple[np.ndarray, float]:
        centrality = self.library.centrality
        # All changes of its last iteration together are what the tolerance is of.
        tolerance = self.error * (1 - DAMPING) / DAMPING
        sinks = centrality.SinkHandling.DistributeSinks
        ranks = centrality.PageRank(self.graph, DAMPING, tolerance, distributeSinks=sinks)
        ranks.norm = centrality.Norm.L1_NORM
        ranks.run()
        return np.asarray(ranks.scores()), self.error


class Igraph:
    """igraph's PageRank (PRPACK), which is exact, of a graph that is made anew each time."""

    def __init__(self, vertices: int, error: float) -> None:
        import igraph

        self.library = igraph
        self.vertices = vertices
        self.edges = [np.empty((0, 2), dtype=np.int64)]

    def add(self, edges: np.ndarray) -> None:
        self.edges.append(edges)

    def rank(self) -> tuple[np.ndarray, float]:
        self.edges = [np.concatenate(self.edges)]
        graph = self.library.Graph(n=self.vertices, edges=self.edges[0], directed=True)
        return np.asarray(graph.pagerank(damping=DAMPING)), 1e-9


LIBRARIES: dict[str, Any] = {"scipy": Scipy, "networkit": Networkit, "igraph": Igraph}


def main(library: str, vertices: str, error: str) -> None:
    incoming = Incoming()
    incoming.start()
    graph = LIBRARIES[library](int(vertices), float(error))
    count, ranks = 0, np.zeros(int(vertices))
    while (edges := incoming.take()) is not None:
        graph.add(edges)
        count += len(edges)
        ranks, bound = graph.rank()
        say({"events": count, "error": bound, "top": [int(ranks.argmax())]})
    best = np.argsort(-ranks, kind="stable")[:TOP]
    say({"ranks": {int(it): float(ranks[it]) for it in best}})


def say(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
