"""The medians of all turns, and which targets are met."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness import target as promise
from harness.target import Target
from stream.turn import Known, Turn

# What must be reached, on two CPUs, with the usual graph.
STALENESS = 0.25
FRESHER = 5.0
PLANTED = 0.46
INGEST = 1e6
MEMORY = 2.5

# Bytes of an edge and a vertex in a graph that never changes, from both of its sides.
FIXED_EDGE, FIXED_VERTEX = 8, 16


@dataclass(frozen=True)
class Measured:
    """What came of a contestant's turns: times in seconds, edges in a second, bytes."""

    ingest: float
    staleness_half: float
    staleness_99: float
    staleness_most: float
    planted: float
    publications: float
    bytes: float


def measured(turns: Sequence[Turn], edges: Known) -> Measured:
    """What comes of turns, of which there is at least one."""
    return Measured(
        ingest=edges.base / median(it.ingest_seconds for it in turns),
        staleness_half=median(it.staleness[0] for it in turns),
        staleness_99=median(it.staleness[1] for it in turns),
        staleness_most=median(it.staleness[2] for it in turns),
        planted=median(it.planted_seconds for it in turns),
        publications=median(it.publications for it in turns),
        bytes=median(it.bytes for it in turns),
    )


def judge(
    ours: Mapping[str, Measured], peers: Mapping[str, Measured], edges: Known
) -> list[Target]:
    """Every target for which there is a figure. What is no number meets none."""
    targets = []
    if node := ours.get("nileos"):
        late, first = node.staleness_99, node.planted
        targets.append(most("staleness", "99% of the time, in seconds", late, STALENESS))
        fixed = FIXED_EDGE * edges.edges + FIXED_VERTEX * edges.vertices
        of = "all of the node / both sides of a graph that never changes"
        targets.append(most("memory", of, node.bytes / fixed, MEMORY))
        if peers:
            best = min(peers, key=lambda name: peers[name].staleness_99)
            ratio = peers[best].staleness_99 / late if late else float("inf")
            of = f"that of {best}, the freshest / ours, 99% of the time"
            targets.append(least("times as fresh", of, ratio, FRESHER))
            best = min(peers, key=lambda name: peers[name].planted)
            of = f"until a new vertex is the first / that of {best}, the fastest"
            ratio = first / peers[best].planted if peers[best].planted else float("inf")
            targets.append(most("planted", of, ratio, PLANTED))
    if divided := ours.get("nileos-parts"):
        late = divided.staleness_99
        targets.append(most("divided", "99% of the time, in seconds", late, STALENESS))
    if kept := ours.get("nileos-kept"):
        of = "edges a second, each kept, until ranks have all"
        targets.append(least("ingest", of, kept.ingest, INGEST))
    return targets


def ratios(ours: Mapping[str, Measured]) -> dict[str, float]:
    """What a divided graph is beside one in one. No promise: it depends on the CPUs."""
    one, divided = ours.get("nileos"), ours.get("nileos-parts")
    if one is None or divided is None:
        return {}
    pairs = {
        "ingest": (divided.ingest, one.ingest),
        "staleness, half of the time": (divided.staleness_half, one.staleness_half),
        "staleness, 99% of the time": (divided.staleness_99, one.staleness_99),
        "planted": (divided.planted, one.planted),
        "memory": (divided.bytes, one.bytes),
    }
    return {name: its / other for name, (its, other) in pairs.items() if other}


def most(name: str, of: str, value: float, target: float) -> Target:
    return Target(name, of, value, f"at most {target:g}", value <= target)


def least(name: str, of: str, value: float, target: float) -> Target:
    return Target(name, of, value, f"at least {target:g}", value >= target)


def problems(targets: Sequence[Target], promised: bool, control: bool) -> list[str]:
    """Why the run as a whole has failed, as far as targets go. A control has to miss what is said
    of time; others have to be met where they are promised."""
    judged = [it for it in targets if not (control and it.name == "memory")]
    return promise.problems(judged, promised, control)
