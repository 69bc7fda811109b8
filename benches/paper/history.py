"""What Hadoop's own record of a job, the job history, says of its shuffle. It is what the history
server shows: lines of JSON, one for each event, after a first line and a schema."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# The counter of what reduce tasks have fetched.
COUNTER = "REDUCE_SHUFFLE_BYTES"

STARTED = "REDUCE_ATTEMPT_STARTED"


class NoHistory(Exception):
    """The record lacks what is asked of it."""


@dataclass(frozen=True)
class Shuffle:
    """What went from map tasks to reduce tasks, and in which time."""

    # From the start of the first reduce task until the last one had all of its input.
    bytes: int
    seconds: float
    # From the end of the last map task until the last reduce task had written its output.
    reducing_seconds: float
    maps: int
    reduces: int


def shuffle(text: str) -> Shuffle:
    """Reads a job's history."""
    done = list(events(text))
    maps = [event for kind, event in done if kind == "MAP_ATTEMPT_FINISHED"]
    reduces = [event for kind, event in done if kind == "REDUCE_ATTEMPT_FINISHED"]
    starts = {event["attemptId"]: event["startTime"] for kind, event in done if kind == STARTED}
    if not maps or not reduces:
        raise NoHistory("the history names no finished map or reduce task")
    mapped = max(event["finishTime"] for event in maps)
    if not all(event["attemptId"] in starts for event in reduces):
        raise NoHistory("the history lacks the start of a reduce task")
    started = min(starts[event["attemptId"]] for event in reduces)
    fetched = max(event["shuffleFinishTime"] for event in reduces)
    ended = max(event["finishTime"] for event in reduces)
    return Shuffle(
        sum(counter(event, COUNTER) for event in reduces),
        (fetched - started) / 1000,
        (ended - mapped) / 1000,
        len(maps),
        len(reduces),
    )


def events(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events as pairs of what happened and its particulars."""
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
        except ValueError as error:
            raise NoHistory(f"a line of the history is no JSON: {error}") from None
        # The schema is an object, too.
        if "event" in event:
            (particulars,) = event["event"].values()
            yield event["type"], particulars


def counter(event: dict[str, Any], name: str) -> int:
    """A counter of a task."""
    for group in event["counters"]["groups"]:
        for one in group["counts"]:
            if one["name"] == name:
                return int(one["value"])
    raise NoHistory(f"a task has no counter {name}")
