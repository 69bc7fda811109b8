"""Inputs of jobs, drawn: few keys and many, skewed, empty and long ones, every end of a line, bytes
that are no text, and sizes around those of blocks and buffers."""

import bisect
import itertools
import random
import struct
from collections.abc import Callable

RECORD, KEY, NUMBER = 100, 10, 8


def size(dice: random.Random, buffer: int, most: int) -> int:
    """About how many bytes: often just around what fills a few blocks."""
    match dice.randrange(6):
        case 0:
            return dice.randrange(300)
        case 1 | 2:
            return min(most, max(0, dice.randrange(1, 9) * buffer + dice.randint(-2, 2)))
        case 3:
            return dice.randrange(min(most, 40 * buffer) + 1)
        case _:
            # As many small ones as large ones.
            return int(most ** dice.uniform(0.5, 1))


def noise(dice: random.Random, length: int, without: bytes) -> bytes:
    """Any bytes but those."""
    return dice.randbytes(length).translate(None, without)


def keys(dice: random.Random, bytes_in_all: int) -> Callable[[], bytes]:
    """What gives a key, again and again."""
    many = max(10, bytes_in_all // 8)
    match dice.randrange(7):
        case 0:
            few = [noise(dice, dice.randrange(1, 20), b"\n ") for _ in range(dice.randrange(1, 8))]
            return lambda: dice.choice(few)
        case 1:
            counter = itertools.count(dice.randrange(10**6))
            return lambda: b"%d" % next(counter)
        case 2:
            return lambda: b"k%d" % dice.randrange(many)
        case 3:
            # A few are most of them, as words are in a language.
            weights = list(itertools.accumulate(1 / rank for rank in range(1, 2000)))
            return lambda: b"w%d" % bisect.bisect(weights, dice.random() * weights[-1])
        case 4:
            # Some are longer than a buffer; their beginnings are the same.
            long = b"x" * dice.randrange(1, 80_000)
            return lambda: long[: dice.randrange(len(long))] + b"%d" % dice.randrange(9)
        case 5:
            return lambda: noise(dice, dice.randrange(0, 12), b"\n ")
        case _:
            return lambda: dice.choice((b"", b"\0", b"\t", b"a\tb", b"\xff\xfe", b"\r", b"a" * 300))


def text(dice: random.Random, length: int) -> bytes:
    """Lines `KEY VALUE`, cut at this length wherever that is."""
    key, end = keys(dice, length), dice.choice((b"\n", b"\n", b"\r\n", b"\n\n"))
    values: Callable[[], bytes] = dice.choice((
        lambda: b"",
        lambda: b"v%d" % dice.randrange(10**6),
        lambda: b" " + key() + b" " + key() + b"\t" + key(),
        lambda: noise(dice, dice.randrange(200), b"\n"),
        lambda: dice.randbytes(dice.randrange(1, 3000)).replace(b"\n", b"\0\0"),
    ))
    made, so_far = [], 0
    while so_far < length:
        line = key() + b" " + values() + (end if dice.random() < 0.99 else b"\r\n\0")
        made.append(line)
        so_far += len(line)
    data = b"".join(made)[:length]
    if data and dice.random() < 0.5:
        data = data[:-1] + b"\n"
    return data


def records(dice: random.Random, length: int) -> bytes:
    """Whole records of about this length, whose keys are equal, few, many, or in order."""
    count, kind = length // RECORD, dice.randrange(5)
    few = [dice.randbytes(KEY) for _ in range(dice.randrange(1, 5))]

    def key(at: int) -> bytes:
        match kind:
            case 0:
                return dice.choice(few)
            case 1:
                return struct.pack(">QH", at, 0)
            case 2:
                return struct.pack(">QH", count - at, 0)
            case 3:
                return dice.choice((b"\0" * KEY, b"\xff" * KEY, dice.randbytes(KEY)))
            case _:
                return dice.randbytes(KEY)

    rest = RECORD - KEY
    return b"".join(key(at) + dice.randbytes(rest) for at in range(count))


def numbers(dice: random.Random, length: int) -> bytes:
    """Whole numbers of 64 bits."""
    count, bits = length // NUMBER, dice.choice((1, 8, 64))
    return struct.pack(f"<{count}Q", *(dice.getrandbits(bits) for _ in range(count)))
