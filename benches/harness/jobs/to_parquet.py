"""to_parquet.py RECORDS FILE: records of 100 bytes as Parquet with the columns `key` and `value`,
uncompressed, without dictionaries, in row groups of a million."""

import sys

import numpy
import pyarrow
import pyarrow.parquet

KEY, RECORD = 10, 100
GROUP = 1_000_000


def column(part: "numpy.ndarray") -> pyarrow.Array:
    width = part.shape[1]
    content = pyarrow.py_buffer(numpy.ascontiguousarray(part))
    fixed = pyarrow.Array.from_buffers(pyarrow.binary(width), len(part), [None, content])
    return fixed.cast(pyarrow.binary())


def main(source: str, made: str) -> None:
    schema = pyarrow.schema([("key", pyarrow.binary()), ("value", pyarrow.binary())])
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    records = numpy.memmap(source, dtype=numpy.uint8, mode="r").reshape(-1, RECORD)
    with pyarrow.parquet.ParquetWriter(made, schema, **plain) as writer:
        for first in range(0, len(records), GROUP):
            group = records[first : first + GROUP]
            columns = [column(group[:, :KEY]), column(group[:, KEY:])]
            writer.write_table(pyarrow.table(columns, schema=schema), row_group_size=GROUP)


if __name__ == "__main__":
    main(*sys.argv[1:])
