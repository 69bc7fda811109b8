"""What jobs ought to make of their input, said in another language and as plainly as that goes.

Each model takes the bytes of the input and of the output, and gives what is wrong, or nothing."""

import collections
import io
import struct
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import check_results  # noqa: E402

RECORD, KEY, NUMBER = check_results.RECORD, check_results.KEY, 8


def lines(data: bytes) -> list[bytes]:
    """The lines of a text, each without its end; behind the last end there is none."""
    found = data.split(b"\n")
    if not found[-1]:
        found.pop()
    return found


def differences(expected: Mapping, output: bytes, fields: int, parts: int) -> str | None:
    """What is wrong with lines `KEY<tab>FIELD...`, of so many parts each in the order of keys."""
    if output and not output.endswith(b"\n"):
        return "the output ends within a line"
    found, descents, last = {}, 0, None
    for line in lines(output):
        key, *values = line.rsplit(b"\t", fields)
        if key in found:
            return f"key {key[:60]!r} is there twice: {found[key]} and {values}"
        found[key] = tuple(int(value) for value in values)
        descents += last is not None and key < last
        last = key
    for key in expected.keys() | found.keys():
        if expected.get(key) != found.get(key):
            return f"key {key[:60]!r} has {found.get(key)} in place of {expected.get(key)}"
    if descents >= parts:
        return f"keys go back {descents} times in {parts} parts"
    return None


def wordcount(data: bytes, output: bytes, parts: int) -> str | None:
    counted = collections.Counter(data.split())
    return differences({word: (count,) for word, count in counted.items()}, output, 1, parts)


def pairs(data: bytes, output: bytes, parts: int) -> str | None:
    sums: dict[bytes, tuple[int, int, int]] = {}
    for line in lines(data):
        key, _, value = line.partition(b" ")
        count, length, checksum = sums.get(key, (0, 0, 0))
        sums[key] = (count + 1, length + len(value), checksum + zlib.crc32(value))
    return differences(sums, output, 3, parts)


def sort(data: bytes, output: bytes, parts: int) -> str | None:
    def records(of: bytes) -> list[bytes]:
        return [of[at : at + RECORD] for at in range(0, len(of), RECORD)]

    made = records(output)
    if len(output) != len(data):
        return f"{len(output)} bytes were made of {len(data)}"
    if any(one[:KEY] > next_one[:KEY] for one, next_one in zip(made, made[1:])):
        return "records are out of order"
    return None if sorted(made) == sorted(records(data)) else "other records than were read"


def numbers(data: bytes, output: bytes, parts: int) -> str | None:
    def of(some: bytes) -> list[int]:
        return list(struct.unpack(f"<{len(some) // NUMBER}Q", some))

    return None if of(output) == sorted(of(data)) else "not the numbers that were read, in order"


def validate(data: bytes, output: bytes, parts: int) -> str | None:
    report = {}
    for line in output.decode().splitlines():
        name, value = line.split(" ")
        report[name] = value
    # A part that is empty says nothing of records that are out of order.
    for name, value in check_results.terasort([io.BytesIO(data)]).items():
        if name in report and report[name] != str(value):
            return f"{name} is {report[name]} and not {value}"
    return None if "records" in report else f"no report: {output[:100]!r}"
