"""The design of the experiment: a factorial one in randomised blocks. Each combination of levels is
run once in each block, in an order that a seed gives, so that what the machine does in the course
of time is no effect of a factor."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from harness.data import RECORD, Job


@dataclass(frozen=True)
class Cell:
    """One level of each factor."""

    environment: str
    job: Job
    reducers: int


def jobs(mebibytes: Sequence[int]) -> list[Job]:
    """What is sorted: the largest first, of which the others have the first records."""
    ordered = sorted(mebibytes, reverse=True)
    return [Job(f"{size}M", (size << 20) // RECORD) for size in ordered]


def blocks(
    environments: Sequence[str], jobs: Sequence[Job], reducers: Sequence[int], runs: int, seed: int
) -> list[list[Cell]]:
    """The cells of each block, in the order in which they are run."""
    cells = [Cell(*levels) for levels in product(environments, jobs, reducers)]
    chance = random.Random(seed)
    return [chance.sample(cells, len(cells)) for _ in range(runs)]
