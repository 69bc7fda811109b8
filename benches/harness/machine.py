"""What this machine is, in words that a reader of the result needs."""

import os
import platform
from pathlib import Path

from harness.tuning import cpus


def describe() -> dict[str, str | int]:
    return {
        "cpus": cpus(),
        "processor": value_of("/proc/cpuinfo", "model name"),
        "memory_bytes": memory(),
        "kernel": f"{platform.system()} {platform.release()}",
        "system": system(),
        "python": platform.python_version(),
    }


def system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "unknown"


def memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_memory() -> int:
    """Bytes that can be had without taking them from anybody."""
    return int(value_of("/proc/meminfo", "MemAvailable").split()[0]) << 10


def value_of(file: str, name: str) -> str:
    """What a file of lines `name: value` says of `name`."""
    for line in Path(file).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"
