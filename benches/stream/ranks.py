"""Ranks by numpy and scipy: PageRank with 0.85, what vertices without edges have going to all
alike. The edges that came first are kept as a matrix; those that came since are a list beside it
until they are an eighth of all."""

import numpy as np
from scipy import sparse

DAMPING = 0.85

# What is beside the matrix is put into it when it is a part of all as large as this.
PART = 8

# How exact the ranks are that others are compared with.
EXACT = 1e-12


class Layout:
    """The edges that have come, each once."""

    def __init__(self, vertices: int) -> None:
        self.vertices = vertices
        self.out = np.zeros(vertices)
        self.whole = sparse.csr_matrix((vertices, vertices))
        self.beside = sparse.csr_matrix((vertices, vertices))
        self.sources = [np.empty(0, dtype=np.int64)]
        self.targets = [np.empty(0, dtype=np.int64)]
        self.fresh = 0
        self.count = 0

    def add(self, sources: np.ndarray, targets: np.ndarray) -> None:
        """Adds edges."""
        self.out += np.bincount(sources, minlength=self.vertices)
        self.sources.append(sources)
        self.targets.append(targets)
        self.fresh += len(sources)
        self.count += len(sources)
        matrix = self.matrix()
        if self.fresh * PART >= self.count:
            self.whole = self.whole + matrix
            self.beside = sparse.csr_matrix((self.vertices, self.vertices))
            self.sources, self.targets, self.fresh = self.sources[:1], self.targets[:1], 0
        else:
            self.beside = matrix

    def matrix(self) -> sparse.csr_matrix:
        sources, targets = np.concatenate(self.sources), np.concatenate(self.targets)
        shape = (self.vertices, self.vertices)
        return sparse.csr_matrix((np.ones(len(sources)), (targets, sources)), shape=shape)

    def sweep(self, ranks: np.ndarray) -> np.ndarray:
        """The ranks after one step of all vertices."""
        given = np.divide(ranks, self.out, out=np.zeros_like(ranks), where=self.out > 0)
        lost = ranks[self.out == 0].sum()
        come = self.whole @ given + self.beside @ given
        return DAMPING * (come + lost / self.vertices) + (1 - DAMPING) / self.vertices

    def settle(self, ranks: np.ndarray, error: float) -> tuple[np.ndarray, float]:
        """Sweeps on from these ranks until all errors together are at most so large; how large."""
        while True:
            after = self.sweep(ranks)
            bound = float(np.abs(after - ranks).sum()) * DAMPING / (1 - DAMPING)
            ranks = after
            if bound <= error:
                return ranks, bound

    def exact(self) -> np.ndarray:
        """Ranks that others can be compared with."""
        start = np.full(self.vertices, 1 / self.vertices)
        return self.settle(start, EXACT)[0]
