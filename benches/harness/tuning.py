"""The file that says how each contestant is set up, with what depends on the machine filled in."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("tuning.toml")

# Reflection that Hadoop needs and that Java forbids since version 17.
OPENS = "--add-opens=java.base/java.lang=ALL-UNNAMED"


def cpus() -> int:
    """The CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def words() -> dict[str, str]:
    """What depends on the machine."""
    return {"{cpus}": str(cpus()), "{cpus+1}": str(cpus() + 1), "{opens}": OPENS}


def read(text: str, words: Mapping[str, str]) -> dict[str, Any]:
    """The tables of a tuning file, with these words filled in."""
    tables: dict[str, Any] = filled(tomllib.loads(text), words)
    return tables


def filled(value: Any, words: Mapping[str, str]) -> Any:
    """`value` with the placeholders in all of its texts replaced."""
    match value:
        case str():
            for word, meaning in words.items():
                value = value.replace(word, meaning)
            return value
        case list():
            return [filled(one, words) for one in value]
        case dict():
            return {name: filled(one, words) for name, one in value.items()}
        case _:
            return value


def merged(usual: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of both; where both have one, the own."""
    both = {**usual, **own}
    for name in usual.keys() & own.keys():
        if isinstance(usual[name], dict):
            both[name] = merged(usual[name], own[name])
    return both


def lines(table: dict[str, Any], prefix: str = "") -> list[str]:
    """A contestant's settings, one a line, for people; what only describes it is left out."""
    said: list[str] = []
    for name, value in table.items():
        match value:
            case dict():
                said += lines(value, f"{prefix}{name}: ")
            case list():
                said.append(f"{prefix}{name} = {' '.join(map(str, value))}")
            case _ if name not in ("title", "what"):
                said.append(f"{prefix}{name} = {value}")
    return said
