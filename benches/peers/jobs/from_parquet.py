"""from_parquet.py FILE...: the records of Parquet files with the columns `key` and `value`, to
standard output. It fails where a key has not 10 bytes or a value not 90."""

import sys

import numpy
import pyarrow
import pyarrow.parquet

KEY, RECORD = 10, 100
BATCH = 100_000


def content(column: pyarrow.Array, width: int) -> "numpy.ndarray":
    column = column.cast(pyarrow.large_binary())
    _, places, data = column.buffers()
    ends = numpy.frombuffer(places, numpy.int64)[column.offset :][: len(column) + 1]
    if (numpy.diff(ends) != width).any():
        raise SystemExit(f"a value has not {width} bytes")
    return numpy.frombuffer(data, numpy.uint8)[ends[0] : ends[-1]].reshape(-1, width)


def main(paths: list[str]) -> None:
    for path in paths:
        file = pyarrow.parquet.ParquetFile(path)
        for batch in file.iter_batches(BATCH, columns=["key", "value"]):
            records = numpy.empty((batch.num_rows, RECORD), numpy.uint8)
            records[:, :KEY] = content(batch.column(0), KEY)
            records[:, KEY:] = content(batch.column(1), RECORD - KEY)
            sys.stdout.buffer.write(records)


if __name__ == "__main__":
    main(sys.argv[1:])
