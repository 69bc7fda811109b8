#!/usr/bin/env python3
"""Checks the results of jobs by other means than those that made them: Python's standard library.

check_results.py terasort OUTPUT...            the outputs, in the order of their parts
check_results.py wordcount TEXT OUTPUT...      the text and what was counted in it

terasort reads records of 100 bytes with keys of 10 and prints {"records", "checksum", "duplicates",
"unordered", "first_unordered", "cut_bytes", "valid"}. The checksum is the sum of the records'
CRC-32s, as valsort and teravalidate print it.

wordcount compares lines "WORD<tab>COUNT", in any order, with what it counts itself; words are what
white space parts. It prints {"words", "different", "valid"}, the latter of which is the number of
words whose counts differ.

Exit status 0: valid, 1: not, 2: the request was wrong or a file cannot be read.
"""

import collections
import json
import sys
import zlib

RECORD, KEY = 100, 10
BATCH = 10_000 * RECORD


def records(files):
    """The records of the files in turn, and last what is left that is no whole record."""
    rest = b""
    for file in files:
        while piece := file.read(BATCH):
            piece = rest + piece
            whole = len(piece) - len(piece) % RECORD
            for at in range(0, whole, RECORD):
                yield piece[at : at + RECORD]
            rest = piece[whole:]
    if rest:
        yield rest


def opened(paths):
    """The files of these paths, each open while it is read."""
    for path in paths:
        with open(path, "rb") as file:
            yield file


def terasort(files):
    count = checksum = duplicates = unordered = cut = 0
    first, before = None, b""
    for record in records(files):
        if len(record) < RECORD:
            cut = len(record)
            break
        key = record[:KEY]
        if key <= before and count:
            if key == before:
                duplicates += 1
            else:
                unordered += 1
                first = count if first is None else first
        before = key
        checksum += zlib.crc32(record)
        count += 1
    return {
        "records": count,
        "checksum": f"{checksum % 2**128:x}",
        "duplicates": duplicates,
        "unordered": unordered,
        "first_unordered": first,
        "cut_bytes": cut,
        "valid": unordered == 0 and cut == 0,
    }


def wordcount(text, paths):
    counted = collections.Counter()
    with open(text, "rb") as file:
        for line in file:
            counted.update(line.split())
    claimed = collections.Counter()
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                word, _, count = line.rstrip(b"\n").rpartition(b"\t")
                claimed[word] += int(count)
    words = counted.keys() | claimed.keys()
    different = sum(counted[word] != claimed[word] for word in words)
    return {"words": len(counted), "different": different, "valid": different == 0}


def main(arguments):
    match arguments:
        case ["terasort", *outputs] if outputs:
            result = terasort(opened(outputs))
        case ["wordcount", text, *outputs] if outputs:
            result = wordcount(text, outputs)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    print(json.dumps(result))
    return 0 if result["valid"] else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError) as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        sys.exit(2)
