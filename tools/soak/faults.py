"""What befalls the cluster: one fault at a time, which ends."""

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import damage
from history import Broken
from place import NODES, Place

# How long a node that was started anew may take to be known.
UP_SECONDS = 60


@dataclass(frozen=True)
class Fault:
    """Something that breaks, and how it is mended."""

    what: str
    breaks: Callable[[], None]
    mends: Callable[[], None]
    # The node whose disk has to be sound again.
    disk: str | None = None
    # Whether commands may fail meanwhile: two nodes are away, or frames are lost at random. Beside
    # one node that is away they do what they are asked for, or what is documented.
    fails: bool = False


class Faults:
    """Draws faults. One node, `spared`, is never killed, so what it takes can be compared."""

    def __init__(self, place: Place, dice: random.Random) -> None:
        self.place = place
        self.dice = dice
        self.spared = dice.choice(NODES)

    def drawn(self) -> Fault:
        kind = self.dice.choice((
            self.killed, self.killed, self.killed, self.stopped, self.stopped, self.parted,
            self.parted, self.network, self.network, self.process, self.core, self.most,
            self.damaged, self.damaged,
        ))
        return kind()

    def done(self, *words: object) -> None:
        """A command that has to happen."""
        end = self.place.run(*words)
        if end.status != 0:
            raise Broken(f"nile {' '.join(map(str, words))}: {end}")

    def node(self) -> str:
        return self.dice.choice([it for it in NODES if it != self.spared])

    def killed(self) -> Fault:
        node, by = self.node(), self.dice.choice(("kill -9", "fault kill"))
        kill = {
            "kill -9": lambda: self.place.signal(node, signal.SIGKILL),
            "fault kill": lambda: self.done("fault", "kill", node),
        }
        return Fault(f"{by} {node}", kill[by], lambda: self.done("fault", "restart", node))

    def most(self) -> Fault:
        """Two of three: nobody can change a name then."""
        both = [it for it in NODES if it != self.spared]

        def breaks() -> None:
            for node in both:
                self.place.signal(node, signal.SIGKILL)

        def mends() -> None:
            for node in both:
                self.done("fault", "restart", node)

        return Fault(f"kill -9 {' '.join(both)}", breaks, mends, fails=True)

    def damaged(self) -> Fault:
        node = self.node()
        which = self.dice.choice((damage.of_log, damage.of_blocks, damage.of_all))
        disks = self.place.disks_of(node)
        # With one disk a seed draws what it always has.
        disk = disks[int(self.dice.random() * len(disks))] if len(disks) > 1 else disks[0]

        def breaks() -> None:
            self.place.signal(node, signal.SIGKILL)
            deadline = time.monotonic() + 10
            while self.place.processes().get(node) and time.monotonic() < deadline:
                time.sleep(0.05)
            which(disk, self.dice)
            self.done("fault", "restart", node)

        def mends() -> None:
            end = self.place.run("disk", "repair", node)
            if end.status == 1 and f"disk format {node}" in end.err:
                self.done("disk", "format", node, "--disk", disk.name, "--yes")
                self.place.run("disk", "repair", node)

        return Fault(f"{disk.name}: {which.__name__}", breaks, mends, node)

    def process(self) -> Fault:
        """One process of a node: a worker, which its node starts anew, or the node itself."""
        node, which = self.node(), self.dice.random()

        def breaks() -> None:
            pids = self.place.processes().get(node, [])
            if pids:
                os.kill(pids[int(which * len(pids))], signal.SIGKILL)

        def mends() -> None:
            # Whichever it was; a worker is waited for.
            deadline = time.monotonic() + 5
            while len(self.place.processes().get(node, [])) < 2 and time.monotonic() < deadline:
                time.sleep(0.2)
            if len(self.place.processes().get(node, [])) < 2:
                self.done("fault", "restart", node)

        return Fault(f"kill -9 of one process of {node}", breaks, mends)

    def core(self) -> Fault:
        core = f"{self.node()}.c{self.dice.randrange(3)}"
        return Fault(f"fault restart {core}", lambda: self.done("fault", "restart", core),
                     lambda: None)

    def stopped(self) -> Fault:
        node = self.dice.choice(NODES)
        return Fault(
            f"SIGSTOP {node}",
            lambda: self.place.signal(node, signal.SIGSTOP),
            lambda: self.place.signal(node, signal.SIGCONT),
        )

    def parted(self) -> Fault:
        alone = self.dice.choice(NODES)
        sides = f"{alone}|{','.join(it for it in NODES if it != alone)}"
        return Fault(
            f"partition {sides}",
            lambda: self.done("fault", "partition", sides),
            lambda: self.done("fault", "heal"),
        )

    def network(self) -> Fault:
        kind, value = self.dice.choice((
            ("loss", "2%"), ("loss", "20%"), ("delay", "5ms"), ("delay", "60ms"),
            ("duplicate", "10%"), ("reorder", "10%"), ("corrupt", "2%"), ("rate", "20M"),
        ))
        return Fault(
            f"{kind} {value}",
            lambda: self.done("fault", kind, value),
            lambda: self.done("fault", kind, "0"),
            fails=kind in ("loss", "corrupt", "delay", "rate"),
        )
