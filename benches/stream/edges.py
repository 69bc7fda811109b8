"""`python -m stream.edges FOLDER SCALE NEW`: the edges of a Kronecker graph as Graph500 and GAP
have it (A, B, C = 0.57, 0.19, 0.19; 16 edges a vertex; numbers of vertices mixed), each once, in an
order that is drawn. The last `NEW` come while ranks are asked for, and so do those that make a new
vertex the first of all. What there is and what comes of it in the end is written beside them."""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl

from stream.ranks import Layout

DEGREE = 16
A, B, C = 0.57, 0.19, 0.19

# Where one edge leads to the vertex with the most, so many lead to the new one: they are drawn, and
# count more than the others do.
PLANTED = 1

# Of so many vertices the exact ranks are written.
TOP = 100


def kronecker(scale: int, dice: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Edges without those that come twice or lead back to where they begin. Vertices without edges
    are left out, and the others numbered anew."""
    count = DEGREE << scale
    sources = np.zeros(count, dtype=np.int64)
    targets = np.zeros(count, dtype=np.int64)
    for bit in range(scale):
        down = dice.random(count) > A + B
        right = dice.random(count) > np.where(down, C / (1 - A - B), A / (A + B))
        sources |= down.astype(np.int64) << bit
        targets |= right.astype(np.int64) << bit
    keys = np.unique((sources << scale | targets)[sources != targets])
    sources, targets = keys >> scale, keys & (1 << scale) - 1
    used, both = np.unique(np.concatenate((sources, targets)), return_inverse=True)
    names = dice.permutation(len(used))
    both = names[both]
    order = dice.permutation(len(keys))
    return both[: len(keys)][order], both[len(keys) :][order]


def main(folder: str, scale: str, new: str) -> None:
    # The same edges each time.
    dice = np.random.default_rng(int(scale))
    sources, targets = kronecker(int(scale), dice)
    vertices = int(max(sources.max(), targets.max())) + 1
    first = len(sources) - int(new)
    if first <= 0:
        sys.exit(f"a graph of scale {scale} has {len(sources)} edges: too few for {new} new ones")
    most = int(np.bincount(targets).max())
    planted = dice.permutation(vertices)[: min(PLANTED * most, vertices)]
    place = Path(folder)
    write(place / "base", sources[:first], targets[:first])
    write(place / "new", sources[first:], targets[first:])
    write(place / "planted", planted, np.full(len(planted), vertices))

    layout = Layout(vertices + 1)
    to_planted = np.full(len(planted), vertices)
    layout.add(np.append(sources, planted), np.append(targets, to_planted))
    exact = layout.exact()
    best = np.argsort(-exact, kind="stable")[:TOP]
    known = {
        "vertices": vertices + 1,
        "base": first,
        "new": int(new),
        "planted": len(planted),
        "vertex": vertices,
        "ranks": {int(it): float(exact[it]) for it in best},
    }
    (place / "known.json").write_text(json.dumps(known))


def write(file: Path, sources: np.ndarray, targets: np.ndarray) -> None:
    table = pl.DataFrame({"from": sources, "to": targets})
    table.write_csv(file, separator=" ", include_header=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
