"""In which order contestants have their turns."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def rotated(entries: Sequence[T], by: int) -> list[T]:
    """The entries, beginning with another one each time."""
    by %= max(len(entries), 1)
    return [*entries[by:], *entries[:by]]
