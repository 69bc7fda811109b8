"""Network namespaces, which are gone when their last process is: `peer`, where clients run and the
TAP of the node is, and `linux`, the other end of a pair of veths."""

import os
import subprocess
import time
from pathlib import Path

from harness.processes import Command, CommandFailed, Crew

# The node's address, the peer's beside it, and both of the veths.
NODE, BESIDE = "10.42.0.1", "10.42.0.99/16"
PEER, LINUX = "10.43.0.1/24", "10.43.0.2/24"

TAP = "tap"

# How long a namespace may take to be there.
LIMIT_SECONDS = 10


def address(network: str) -> str:
    return network.partition("/")[0]


class Space:
    """A namespace, kept by a process of its own."""

    def __init__(self, crew: Crew, name: str) -> None:
        log = crew.folder / f"{name}.log"
        words = ["unshare", "--net", "--", "sleep", "infinity"]
        self.keeper = crew.start(Command(words, {}), log, log)
        self.file = Path(f"/proc/{self.keeper.pid}/ns/net")
        ours = os.readlink("/proc/self/ns/net")
        patience = time.monotonic() + LIMIT_SECONDS
        while self.keeper.poll() is None and time.monotonic() < patience:
            if os.readlink(self.file) != ours:
                return
            time.sleep(0.01)
        raise CommandFailed(f"there is no network namespace: {log.read_text().strip()}")

    def words(self, *words: str | Path) -> list[str | Path]:
        """A command in there."""
        return ["nsenter", f"--net={self.file}", "--", *words]

    def ip(self, text: str) -> None:
        done = subprocess.run(
            list(map(str, self.words("ip", *text.split()))), capture_output=True, text=True
        )
        if done.returncode != 0:
            raise CommandFailed(f"ip {text}: {done.stderr.strip()}")


class Spaces:
    """Both namespaces, joined."""

    def __init__(self, crew: Crew) -> None:
        self.peer = Space(crew, "peer")
        self.linux = Space(crew, "linux")
        self.peer.ip(f"tuntap add {TAP} mode tap")
        self.peer.ip(f"address add {BESIDE} dev {TAP}")
        self.peer.ip(f"link set {TAP} up")
        self.peer.ip(f"link add veth type veth peer name veth netns {self.linux.keeper.pid}")
        for space, own in ((self.peer, PEER), (self.linux, LINUX)):
            space.ip(f"address add {own} dev veth")
            space.ip("link set veth up")

    def offloads(self, are_on: bool) -> None:
        """Has segments cross the veths whole, or cut to the size of a frame."""
        segments = "65535" if are_on else "1"
        for space in (self.peer, self.linux):
            size = "gso_max_size 65536" if are_on else "gso_max_size 1514"
            space.ip(f"link set veth gso_max_segs {segments} {size}")
