#!/usr/bin/env python3
"""Compares jobs with models of them: python3 tools/differential [OPTIONS]

Each draw is a job over an input, with so many reduce tasks, so much memory and so many copies, on a
cluster of hosted nodes of some shape; sometimes a worker core or a node dies in its midst. Its
output has to be what the model in models.py says, and nothing else may be left of it. A draw
follows from its number alone, and `--draw N` repeats it.

Exit status 0: all were right, 1: some were not, 2: the request was wrong.
"""

import argparse
import random
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import inputs
import models
from cluster import Cluster, CommandFailed, Shape, build, package

# Draws that one cluster is used for: it is of the first of them.
OF_CLUSTER = 8

# What a job may say that cannot be done, as the manual has it.
REFUSALS = (
    "sorted runs are to be merged, and the pool has only",
    "the pairs of one split have more than",
)

# Where somebody dies in the midst.
PHASES = ("sampling", "mapping", "mapping", "reducing", "reducing", "ending")


@dataclass(frozen=True)
class Kind:
    """A kind of job: its package, what it is given, what it reads, and its model."""

    package: str
    data: Callable[[random.Random, int], bytes]
    model: Callable[[bytes, bytes, int], str | None]
    arguments: tuple[str, ...] = ()
    samples: int = 0


KINDS = {
    "wordcount": Kind("wordcount", inputs.text, models.wordcount),
    "pairs": Kind("pairs", inputs.text, models.pairs),
    "sort": Kind("tera", inputs.records, models.sort, ("sort",), samples=8),
    "validate": Kind("tera", inputs.records, models.validate, ("validate",)),
    "numbers": Kind("numbers", inputs.numbers, models.numbers, samples=3),
}


@dataclass
class Draw:
    """A job, and what befalls it."""

    number: int
    kind: str
    data: bytes = field(repr=False)
    length: int
    arguments: list[str]
    reducers: int
    memory: int | None
    copies: int
    is_put_before: bool
    fault: tuple[str, str] | None

    @staticmethod
    def drawn(number: int, shape: Shape, most: int, is_wrong: bool) -> "Draw":
        dice = random.Random(f"draw {number}")
        kind = "pairs" if is_wrong else dice.choice(("wordcount", "pairs", "pairs", *KINDS))
        data = KINDS[kind].data(dice, inputs.size(dice, shape.buffer, min(most, shape.pool // 3)))
        arguments = list(KINDS[kind].arguments)
        if kind == "pairs":
            # A few times in each map task, or never.
            collected = max(16 << 10, 3 * len(data) // dice.randrange(4, 40))
            arguments += dice.choice(([], ["combine"])) + [f"collect={collected}"]
            arguments += ["wrong"] if is_wrong else []
        if kind == "numbers" and dice.random() < 0.3:
            arguments.append("whole")
        fault = None
        if shape.nodes > 1 and dice.random() < 0.2:
            node = f"n{dice.randrange(1, shape.nodes + 1)}"
            core = f".c{dice.randrange(2, 2 + shape.workers)}"
            # Of a node that dies there are copies elsewhere, and a majority of three is left.
            is_node = shape.nodes == 3 and dice.random() < 0.3
            fault = (dice.choice(PHASES), node if is_node else node + core)
        is_node = fault is not None and "." not in fault[1]
        return Draw(
            number=number,
            kind=kind,
            data=data,
            length=len(data),
            arguments=arguments,
            # A worker that is gone is not there for a part either.
            reducers=dice.randrange(1, shape.parts + 1 - (shape.workers if is_node else 0)),
            memory=dice.choice((None, None, shape.pool // 2, shape.pool // 8)),
            copies=2 if is_node else dice.randrange(1, shape.nodes + 1),
            is_put_before=dice.random() < 0.3,
            fault=fault,
        )

    def perform(self, cluster: Cluster) -> str | None:
        """Runs the job and compares; what is wrong, if something is. A refusal begins with `-`."""
        kind, file, output = KINDS[self.kind], cluster.path / "input", cluster.path / "output"
        file.write_bytes(self.data)
        given: str | Path = file
        if self.is_put_before:
            cluster.nile("put", file, "given", "--copies", self.copies)
            given = "given"
        words = ["run", package(kind.package), "--input", given, "--output", "made"]
        words += ["--reducers", self.reducers, "--copies", self.copies, "--samples", kind.samples]
        words += ["--memory", f"{self.memory >> 10}K"] if self.memory else []
        if self.fault is not None:
            phase, target = self.fault
            kill = shlex.join([*Cluster.words("fault", "kill", target)])
            words += ["--at", f"{kind.package}:{phase}={kill} || true"]
        try:
            cluster.nile(*words, "--json", "--", *self.arguments)
            wrong = None
        except CommandFailed as error:
            wrong = str(error)
            if any(refusal in wrong for refusal in REFUSALS):
                wrong = f"- {wrong}"
        if self.fault is not None and "." not in self.fault[1]:
            cluster.mend(self.fault[1])
        if wrong is None:
            cluster.nile("get", "made", output)
            wrong = kind.model(self.data, output.read_bytes(), self.reducers)
            output.unlink()
        left = cluster.datasets()
        for name in {"made", "given"} & set(left):
            cluster.nile("rm", name)
        others = [name for name in left if name not in ("made", "given")]
        # What was removed while its node was away is there again.
        if wrong is None and others and self.fault is None:
            wrong = f"it has left {others}"
        for name in others:
            cluster.nile("rm", name)
        return wrong


def shape_of(number: int) -> Shape:
    """The cluster that a draw is on."""
    return Shape.drawn(random.Random(f"shape {number // OF_CLUSTER}"))


def amount(text: str) -> int:
    """Bytes, as 512K or 16M."""
    units = {"K": 10, "M": 20}
    return int(text[:-1]) << units[text[-1]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="differential", allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=20, help="how long draws are made")
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--draw", type=int, help="make this draw alone")
    parser.add_argument(
        "--most", type=amount, default="2M", help="the most bytes of an input, as 16M (2M)"
    )
    parser.add_argument(
        "--control", action="store_true", help="have jobs do wrong: succeeds if that is found"
    )
    options = parser.parse_args()
    build()
    until = time.monotonic() + options.seconds
    number = options.first if options.draw is None else options.draw
    counts: Counter[str] = Counter()
    wrongs = 0
    is_over = False
    while not is_over:
        shape = shape_of(number)
        print(f"from draw {number}: {shape}", flush=True)
        with Cluster(shape) as cluster:
            while not is_over and shape_of(number) == shape:
                draw = Draw.drawn(number, shape, options.most, options.control)
                print(f"  {draw}", flush=True)
                try:
                    wrong = draw.perform(cluster)
                except CommandFailed as error:
                    wrong = str(error)
                counts[draw.kind] += 1
                if wrong is not None and wrong.startswith("-"):
                    print(f"    refused {wrong}", flush=True)
                    counts["refused"] += 1
                elif wrong is not None:
                    print(f"    WRONG: {wrong}\n    again: tools/differential --draw {number}"
                          f" --most {options.most >> 10}K", flush=True)
                    wrongs += 1
                number += 1
                is_over = options.draw is not None or time.monotonic() > until
                is_over |= options.control and wrongs > 0
                if wrong is not None:
                    # Who knows what it has left.
                    break
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    print(f"{wrongs} wrong")
    return int((wrongs > 0) != options.control)


if __name__ == "__main__":
    sys.exit(main())
