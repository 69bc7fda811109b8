"""What igraph, networkx and scipy say about a graph, beside what it says itself."""

import json
import random
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import igraph
import networkx
from cluster import Cluster
from streams import Event, Stream

# The most vertices of a top.
MOST = 500
# How far ranks in floating point are from exact ones, in sum, and what is lost in their text.
ROUNDING = 1e-9
# Lines of a call of the command at most.
PIECE = 5000


class Wrong(Exception):
    """Something is not as it has to be: what."""


def compare(cluster: Cluster, stream: Stream, damping: float) -> int:
    """Feeds a graph and compares it; how many edges it has."""
    name = f"draw{stream.number}"
    cluster.nile("graph", "create", name, "--error", stream.error, "--parts", stream.parts)
    try:
        feed(cluster, name, stream)
        top = ask(cluster, "top", name, "-n", MOST, "--settled")
        vertices, edges = stream.edges()
        state = top["graph"]
        if (state["vertices"], state["edges"]) != (len(vertices), len(edges)):
            raise Wrong(f"there are {len(vertices)} vertices and {len(edges)} edges: {state}")
        if not state["error"] <= stream.error:
            raise Wrong(f"errors are to be {stream.error} at most: {state}")
        for library, ranks in ranked(vertices, edges, damping):
            judge_ranks(library, top["top"], ranks, state["error"])
        judge_ways(cluster, name, stream, vertices, edges)
        return len(edges)
    finally:
        cluster.nile("graph", "remove", name)


def feed(cluster: Cluster, name: str, stream: Stream) -> None:
    """Feeds it piece by piece, a source after the other at random."""
    dice = random.Random(f"feed {stream.number}")
    with tempfile.TemporaryDirectory(prefix="nile-graphs-") as folder:
        said = {source: 0 for source in stream.sources}
        while open_ones := [it for it in said if said[it] < len(stream.sources[it])]:
            source = dice.choice(open_ones)
            said[source] += dice.randrange(1, PIECE)
            tell(cluster, name, Path(folder), stream.sources[source][: said[source]], source)
        for source in stream.again:
            tell(cluster, name, Path(folder), stream.sources[source], source)


def tell(cluster: Cluster, name: str, folder: Path, events: Iterable[Event], source: int) -> None:
    """A file has all that a source has said so far, and so repeats what is known."""
    file = folder / "edges of a source.txt"
    file.write_text("".join(f"{it}\n" for it in events))
    cluster.nile("graph", "feed", name, file, "--source", source)


def ask(cluster: Cluster, *words: object) -> Any:
    return json.loads(cluster.nile("graph", *words, "--json"))


def ranked(
    vertices: set[int], edges: set[tuple[int, int]], damping: float
) -> Iterable[tuple[str, dict[int, float]]]:
    """The ranks as libraries find them: igraph solves a linear system, networkx iterates."""
    places = {vertex: place for place, vertex in enumerate(sorted(vertices))}
    pairs = [(places[source], places[to]) for source, to in edges]
    graph = igraph.Graph(n=len(places), edges=pairs, directed=True)
    yield "igraph", dict(zip(places, graph.pagerank(damping=damping)))
    other = networkx.DiGraph()
    other.add_nodes_from(vertices)
    other.add_edges_from(edges)
    ranks = networkx.pagerank(other, alpha=damping, tol=1e-14, max_iter=10_000)
    yield "networkx", ranks


def judge_ranks(
    library: str, top: list[dict[str, Any]], ranks: dict[int, float], error: float
) -> None:
    """The errors of all ranks together are within the bound, and what is certain is so."""
    if len(top) != min(MOST, len(ranks)):
        raise Wrong(f"{len(top)} of {len(ranks)} vertices are in the top")
    found = sum(abs(it["rank"] - ranks[it["vertex"]]) for it in top)
    if found > error + ROUNDING:
        raise Wrong(f"ranks are {found:.3e} from those of {library}, and {error:.3e} was the bound")
    for one, next_one in zip(top, top[1:]):
        if one["certain"] and ranks[one["vertex"]] < ranks[next_one["vertex"]] - ROUNDING:
            raise Wrong(f"by {library} {next_one['vertex']} comes before {one['vertex']}")


def judge_ways(
    cluster: Cluster, name: str, stream: Stream, vertices: set[int], edges: set[tuple[int, int]]
) -> None:
    """Components and distances of a few vertices."""
    graph = networkx.DiGraph()
    graph.add_nodes_from(vertices)
    graph.add_edges_from(edges)
    dice = random.Random(f"ways {stream.number}")
    several = sorted(vertices)
    for _ in range(3):
        one, other = dice.choice(several), dice.choice(several)
        connected = networkx.node_connected_component(graph.to_undirected(as_view=True), one)
        said = ask(cluster, "vertex", name, one)["component"]
        if said != {"lowest": min(connected), "vertices": len(connected)}:
            raise Wrong(f"{one} is connected with {len(connected)}, {min(connected)} first: {said}")
        way = networkx.has_path(graph, one, other)
        length = networkx.shortest_path_length(graph, one, other) if way else None
        told = ask(cluster, "distance", name, one, other)["edges"]
        if told != length:
            raise Wrong(f"from {one} to {other} it is {length} edges: {told}")
