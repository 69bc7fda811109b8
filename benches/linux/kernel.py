"""The guest's Linux: Debian's kernel for clouds, whose package is fetched and unpacked, but not
installed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from harness.install import NotInstalled, bring, program, say

# The package that names the newest one.
NEWEST = "linux-image-cloud-amd64"

# What drives the machine's disk and its network card.
DRIVERS = ("virtio_pci", "virtio_blk", "virtio_net")


class Kernel:
    """A kernel in `folder`, where it is fetched to once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "tree"

    def install(self) -> None:
        if self.tree.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            archive = self.fetch()
        except NotInstalled:
            # The lists of packages may be old, or not be there.
            if os.geteuid() != 0:
                raise
            bring([program("apt-get", "apt"), "update", "--quiet"], "the list of packages")
            archive = self.fetch()
        part = self.folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        bring([program("dpkg-deb", "dpkg"), "--extract", str(archive), str(part)], archive.name)
        part.rename(self.tree)
        archive.unlink()

    def fetch(self) -> Path:
        """The newest kernel's package, as a file."""
        package = newest()
        say(f"fetching {package}")
        for old in self.folder.glob("*.deb"):
            old.unlink()
        get = [program("apt-get", "apt"), "download", "--quiet", package]
        bring(["env", "--chdir", str(self.folder), *get], package)
        archives = list(self.folder.glob(f"{package}_*.deb"))
        if not archives:
            raise NotInstalled(f"{package} was not fetched to {self.folder}")
        return archives[0]

    def image(self) -> Path:
        """The file that a machine boots."""
        return next((self.tree / "boot").glob("vmlinuz-*"))

    def release(self) -> str:
        return self.image().name.removeprefix("vmlinuz-")

    def modules(self) -> list[Path]:
        """The modules of the drivers, each after those that it needs."""
        files = {path.stem: path for path in (self.tree / "lib/modules").rglob("*.ko")}
        return in_order(DRIVERS, {name.replace("-", "_"): it for name, it in files.items()})


def in_order(wanted: tuple[str, ...], files: dict[str, Path]) -> list[Path]:
    """Modules after those that they depend on; what is built into the kernel has no file."""
    found: list[Path] = []

    def add(name: str) -> None:
        path = files.get(name)
        if path is None or path in found:
            return
        for other in depends(path.read_bytes()):
            add(other)
        found.append(path)

    for name in wanted:
        add(name)
    return found


def depends(module: bytes) -> list[str]:
    """What a module says that it depends on."""
    said = re.search(rb"\0depends=([^\0]*)\0", module)
    names = said[1].decode().split(",") if said else []
    return [name.replace("-", "_") for name in names if name]


def newest() -> str:
    """The package with the newest kernel."""
    words = [program("apt-cache", "apt"), "depends", NEWEST]
    said = subprocess.run(words, capture_output=True, text=True)
    names = re.findall(r"^ *Depends: (linux-image-\S+)$", said.stdout, re.MULTILINE)
    if not names:
        raise NotInstalled(f"this system knows no package {NEWEST}; run: sudo apt-get update")
    return names[0]
