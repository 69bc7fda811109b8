"""What a Linux guest finds in its memory when it starts: an archive (cpio, "newc") with the program
that is its first process, the libraries that this needs, and the kernel's modules."""

import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

# Devices that are there before `/dev` is mounted: what the first process says goes to the console.
DEVICES = {"dev/console": (5, 1), "dev/null": (1, 3)}

EXECUTABLE = 0o755


def write(folder: Path, program: Path, modules: Iterable[Path]) -> Path:
    """Writes the archive to a folder, its program without symbols."""
    init, file = folder / "init", folder / "initramfs"
    subprocess.run(["strip", "-o", init, program], check=True)
    file.write_bytes(archive(init, modules))
    return file


def archive(program: Path, modules: Iterable[Path]) -> bytes:
    """The archive; modules are loaded in their order."""
    files: dict[str, Path] = {"init": program}
    files |= {str(path).lstrip("/"): path for path in libraries(program)}
    files |= {f"modules/{at:02}-{path.name}": path for at, path in enumerate(modules)}
    made = bytearray()
    for folder in folders([*files, *DEVICES]):
        made += entry(folder, stat.S_IFDIR | EXECUTABLE)
    for name, device in DEVICES.items():
        made += entry(name, stat.S_IFCHR | 0o600, device=device)
    for name, path in files.items():
        made += entry(name, stat.S_IFREG | EXECUTABLE, path.read_bytes())
    return bytes(made + entry("TRAILER!!!", 0))


def folders(names: Iterable[str]) -> list[str]:
    """The folders that files lie in, outer ones first."""
    found = {str(folder) for name in names for folder in Path(name).parents}
    return sorted(found - {"."})


def entry(name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    """A file of the archive: thirteen numbers, its name and its bytes, each filled up to four."""
    title = name.encode() + b"\0"
    numbers = [0, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(title), 0]
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + title
    return padded(head) + padded(content)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def libraries(program: Path) -> Iterator[Path]:
    """The files that the program is linked with, at the places where it looks for them."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        words = line.split()
        paths = [word for word in words if word.startswith("/")]
        if paths:
            yield Path(paths[0])
