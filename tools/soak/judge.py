"""What has to hold when a fault is over, and in the end."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

from clients import Client, Soak
from history import Broken
from place import NODES

# How long all may take to be readable again when a fault is over.
BOUND_SECONDS = 60

# How long a store may take to free what nobody wants any more: what is half-written by a command
# that was killed it keeps for two minutes, and so what a job had for itself.
FREED_SECONDS = 60
KILLED_SECONDS = 260

UNIT = 4096

# The records of jobs stay; what jobs had for themselves goes, but a short run does not wait for it.
KEPT = (".jobs/",)
PASSING = (".packages/", ".run/")


def settle(soak: Soak, probes: list[Client], disk: str | None) -> None:
    """Waits until all can be read, for as long as that may take; a node's disk is sound then."""
    soak.pause()
    begun = time.monotonic()
    left, is_whole = sorted(soak.histories), False
    with ThreadPoolExecutor(len(probes)) as pool:
        while not soak.is_over:
            is_whole = is_whole or probes[0].listed()
            if disk and is_whole and is_sound(probes[0], disk):
                disk = None
            left = fetched(pool, probes, left)
            took = time.monotonic() - begun
            if is_whole and not left and not disk:
                soak.note(f"all can be read after {took:.1f} s")
                soak.slowest = max(soak.slowest, took)
                break
            if took > BOUND_SECONDS:
                what = f"not readable: {left}" if left else "not whole, or nodes are missing"
                what += f"; the disk of {disk} is not sound" if disk else ""
                raise Broken(f"{took:.0f} s after the fault, {what}")
            time.sleep(0.5)
    soak.calm_since = time.monotonic()
    soak.resume()


def is_sound(probe: Client, node: str) -> bool:
    """Whether nothing is wrong with a node's disk. What is missing there is got."""
    end = probe.command("disk", "check", node)
    if end.status != 0:
        probe.command("disk", "repair", node)
    return end.status == 0


def fetched(pool: ThreadPoolExecutor, probes: list[Client], names: list[str]) -> list[str]:
    """Has the probes get what these names mean; those that could not be read."""

    def share(at: int) -> list[str]:
        return [name for name in names[at :: len(probes)] if not probes[at].fetch(name)]

    return [name for left in pool.map(share, range(len(probes))) for name in left]


def emptied(soak: Soak, probe: Client) -> None:
    """Removes all there is: soon no store has anything left, whatever its node has missed, and no
    space is lost."""
    for name in sorted(soak.histories):
        probe.drop(name)
    # What no history is kept of: of sorts that could not remove what they had made.
    end = probe.command("ls", "--json")
    for it in json.loads(end.out or b'{"datasets": []}')["datasets"]:
        probe.command("rm", it["name"])
    kept = KEPT if soak.kills else KEPT + PASSING
    begun = time.monotonic()
    while True:
        wrong = [why for node in NODES for why in left_on(probe, node, kept)]
        took = time.monotonic() - begun
        if not wrong:
            return soak.say(f"all space is free again after {took:.1f} s")
        if took > (KILLED_SECONDS if soak.kills else FREED_SECONDS):
            raise Broken(f"{took:.0f} s after all was removed: " + "; ".join(wrong))
        time.sleep(2)
        # Drafts that nobody touches end when another one is begun.
        probe.store("a", *soak.content(UNIT), replaces=False)
        probe.drop("a")


def left_on(probe: Client, node: str, kept: tuple[str, ...]) -> list[str]:
    """What is on a node's store that should not be, or missing of its space."""
    wrong: list[str] = []
    for store in probe.soak.place.stores():
        there: list[dict] = []
        while page := asked(probe, node, f"{store}.list", f"skip={len(there)}")["datasets"]:
            there += page
        space = asked(probe, node, f"{store}.space")["space"]
        used = sum(-(-it["bytes"] // UNIT) * UNIT for it in there)
        lost = space["total"] - space["free"] - used
        wrong += [f"{node} has {it}" for it in there if not it["name"].startswith(kept)]
        wrong += [f"{store} of {node} has lost {lost} bytes of space"] if lost else []
    return wrong


def asked(probe: Client, node: str, *words: str) -> dict:
    end = probe.command("call", *words, "--core", f"{node}.c1", "--json")
    if end.status != 0:
        raise Broken(f"{' '.join(words)} of {node}: {end}")
    return json.loads(end.out)["reply"]
