#!/usr/bin/env python3
"""Uses a cluster while it breaks, with a model of every promise beside it:
python3 tools/soak [OPTIONS]

Clients put, replace, get, remove and list datasets and run jobs on three hosted nodes, while nodes
are killed, stopped and cut off, disks are damaged and the network loses frames, one fault at a
time. What was said to be done has to be there, byte for byte, until something later was; what was
removed stays away; what fails has changed nothing; every command ends in time; soon after each
fault everything can be read. In the end all is removed, and no space is lost. What the nodes take
of memory, descriptors, threads and disk is compared over time.

All is drawn from `--seed`; which command meets which fault depends on time.

Exit status 0: all was kept, 1: something was not, 2: the request was wrong.
"""

import argparse
import random
import shutil
import sys
import time
import unittest

import tests
from clients import Client, Soak
from faults import Faults
from history import Broken
from judge import emptied, settle
from meters import Meters
from place import Place

from cluster import build  # noqa: E402, of tools/differential

CLIENTS = 3

# How much of each log is shown when something was not kept.
LOG_LINES = 15


def rest(soak: Soak, seconds: float) -> None:
    with soak.lock:
        soak.lock.wait_for(lambda: soak.is_over, timeout=seconds)


def soak_for(options: argparse.Namespace, tampering: str | None) -> Soak:
    """Uses a cluster for a while; what came of it."""
    dice = random.Random(f"{options.seed} faults")
    with Place(options.disks) as place:
        soak = Soak(place, options, tampering)
        meters = Meters(place)
        faults = Faults(place, dice)
        soak.say(f"seed {options.seed}; {faults.spared} is never killed")
        clients = [Client(soak, number) for number in range(CLIENTS)]
        probes = [Client(soak, CLIENTS + number) for number in range(CLIENTS)]
        for thread in (meters, *clients):
            thread.start()
        until = time.monotonic() + options.seconds
        longest = min(20.0, options.seconds / 6)
        try:
            while not soak.is_over and time.monotonic() < until:
                rest(soak, dice.uniform(0.1, 1) * longest)
                if tampering is None:
                    disk = befall(soak, faults, dice.choice((0.05, 0.3, 1)) * longest)
                    settle(soak, probes, disk)
        except Broken as broken:
            soak.fails(str(broken))
        finally:
            with soak.lock:
                soak.is_over = True
                soak.lock.notify_all()
            for client in clients:
                client.join()
        try:
            if not soak.broken and tampering is None:
                emptied(soak, probes[0])
        except Broken as broken:
            soak.fails(str(broken))
        finally:
            meters.end()
        print(meters.table())
        kept = place.keep_logs()
        end = place.run("down")
        if end.status != 0 or place.processes():
            soak.fails(f"nile down: {end}; left: {place.processes()}")
        for grown in meters.grown():
            soak.fails(grown)
    if soak.broken and tampering is None:
        for log in sorted(kept.iterdir()):
            lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            print(f"\nthe end of {log}:", *lines, sep="\n  ")
    else:
        shutil.rmtree(kept)
    return soak


def befall(soak: Soak, faults: Faults, seconds: float) -> str | None:
    """A fault, from its beginning to its end; the node whose disk it was of."""
    if soak.is_over:
        return None
    fault = faults.drawn()
    soak.say(f"{fault.what} for {seconds:.1f} s")
    soak.calm_since = None
    soak.may_fail = fault.fails
    soak.counts["faults"] += 1
    fault.breaks()
    try:
        rest(soak, seconds)
    finally:
        fault.mends()
    soak.say(f"{fault.what}: over")
    return fault.disk


def told(soak: Soak) -> None:
    print(", ".join(f"{count} {name}" for name, count in sorted(soak.counts.items())))
    print(f"after a fault all could be read within {soak.slowest:.1f} s")
    if soak.broken:
        print("the last operations:\n" + "\n".join(soak.last))
        print("BROKEN: " + "\nBROKEN: ".join(soak.broken))


def control(options: argparse.Namespace) -> int:
    """Whether what is wrong is noticed: by the model itself, a byte, and a name that comes back."""
    cases = unittest.defaultTestLoader.loadTestsFromModule(tests)
    missed = 0 if unittest.TextTestRunner(sys.stdout).run(cases).wasSuccessful() else 1
    for tampering in ("byte", "name"):
        soak = soak_for(options, tampering)
        is_noticed = any("cannot end so" in broken for broken in soak.broken)
        said = soak.broken[0].splitlines()[0] if soak.broken else ""
        print(f"{tampering}: {'noticed' if is_noticed else 'MISSED'}: {said}")
        missed += not is_noticed
    return int(missed > 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=25, help="how long")
    parser.add_argument("--seed", default="1", help="what all is drawn from")
    parser.add_argument(
        "--most", type=int, default=2049, help="KiB, below which files' sizes are around limits"
    )
    parser.add_argument(
        "--disks", type=int, default=1, choices=range(1, 9), help="how many each node has"
    )
    parser.add_argument(
        "--control", action="store_true", help="break promises: succeeds if that is found"
    )
    options = parser.parse_args()
    build()
    if options.control:
        return control(options)
    soak = soak_for(options, None)
    told(soak)
    if soak.broken:
        print(f"again: python3 tools/soak --seed {options.seed} --seconds {options.seconds:.0f}"
              f" --most {options.most} --disks {options.disks}")
    return int(bool(soak.broken))


if __name__ == "__main__":
    sys.exit(main())
