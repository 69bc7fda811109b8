#!/usr/bin/env python3
"""Compares streaming graphs with igraph, networkx and scipy: python3 tools/graphs [OPTIONS]

Each draw is a stream of edges that come and go, from several sources, in any order and in part
twice, fed to a graph of a hosted node, in one to three parts, by the command. Its ranks, components and distances have to
be those that the libraries find in the last edges: ranks within the bound that the graph publishes.
A draw follows from its number alone, and `--draw N` repeats it. In the end a draw is compared with
ranks of another damping, which must not be right. The libraries are installed below the build's
folder when they are missing.

With `--producers`, unmodified producers of Kafka send edges to a graph through `nile door kafka`
in place of that, while connections are cut and the node is killed; each edge has to count once.

Exit status 0: all were right, 1: some were not, 2: the request was wrong.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "benches"))
sys.path.append(str(Path(__file__).resolve().parent.parent / "differential"))

from harness import tuning  # noqa: E402
from harness.install import NotInstalled, Tools  # noqa: E402

PACKAGES = ("igraph", "networkx", "numpy", "scipy")
PRODUCERS = ("confluent_kafka", "kafka_python")
# That of the graphs, and one that it is not.
DAMPING, OTHER_DAMPING = 0.85, 0.8
# A chain, whose ranks depend on it.
CONTROL = 1
# Says that this is the Python that has them.
HAS_PACKAGES = "NILE_GRAPHS"


def main() -> int:
    words = arguments()
    if HAS_PACKAGES not in os.environ:
        return again(PRODUCERS if words.producers else PACKAGES)
    return producers() if words.producers else draws(words)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long to draw")
    parser.add_argument("--first", type=int, default=1, help="the first draw")
    parser.add_argument("--draw", type=int, help="this draw alone")
    parser.add_argument("--producers", action="store_true", help="producers of Kafka, no draws")
    return parser.parse_args()


def again(packages: tuple[str, ...]) -> int:
    """Runs this with the Python that has the libraries."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    versions = tuning.read(tuning.FILE.read_text(), tuning.words())["packages"]
    tools = Tools(target / "peers", versions)
    try:
        tools.need_packages(*packages)
    except NotInstalled as error:
        print(f"nile: {error}", file=sys.stderr)
        return 2
    here = str(Path(__file__).parent)
    environment = os.environ | {HAS_PACKAGES: "1"}
    return subprocess.call([str(tools.python), here, *sys.argv[1:]], env=environment)


def producers() -> int:
    from cluster import Cluster, Shape, build
    from producers import Wrong, run

    build()
    with Cluster(Shape(nodes=1, workers=2, pool=8 << 20, buffer=64 << 10, direct=False)) as cluster:
        try:
            print(f"each edge counted once: {run(cluster)}")
        except Wrong as error:
            print(f"wrong: {error}")
            return 1
    return 0


def draws(words: argparse.Namespace) -> int:
    # What they import is there only now.
    from cluster import Cluster, Shape, build
    from judge import Wrong, compare
    from streams import Stream

    build()
    wrong, edges = [], 0
    number = first = words.first if words.draw is None else words.draw
    until = time.monotonic() + words.seconds
    with Cluster(Shape(nodes=1, workers=2, pool=8 << 20, buffer=64 << 10, direct=False)) as cluster:
        while number == first or words.draw is None and time.monotonic() < until:
            stream = Stream.drawn(number)
            print(f"  {stream}", flush=True)
            try:
                edges += compare(cluster, stream, DAMPING)
            except Wrong as error:
                wrong.append(number)
                print(f"draw {number} is wrong: {error}", flush=True)
            number += 1
        try:
            compare(cluster, Stream.drawn(CONTROL), OTHER_DAMPING)
        except Wrong as error:
            print(f"the control is wrong, as it has to be: {error}")
        else:
            wrong.append(CONTROL)
            print("the control is right, so nothing here is shown")
    print(f"{number - first} draws, {edges} edges: {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
