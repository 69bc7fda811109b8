"""polars_sort.py INPUT OUTPUT ENGINE: sorts a Parquet file with Polars and prints the seconds that
it took."""

import json
import sys
import time

import polars


def main(source: str, made: str, engine: str) -> None:
    begun = time.perf_counter()
    plain = {"compression": "uncompressed", "statistics": False}
    if engine == "streaming":
        polars.scan_parquet(source).sort("key").sink_parquet(made, engine=engine, **plain)
    else:
        polars.read_parquet(source).sort("key").write_parquet(made, **plain)
    print(json.dumps({"seconds": time.perf_counter() - begun}))


if __name__ == "__main__":
    main(*sys.argv[1:])
