"""duckdb_sort.py INPUT OUTPUT SETTINGS: sorts a Parquet file with DuckDB, whose settings are given
as JSON, and prints the seconds that it took."""

import json
import sys
import time

import duckdb


def main(source: str, made: str, settings: str) -> None:
    connection = duckdb.connect(config=json.loads(settings))
    begun = time.perf_counter()
    connection.execute(
        f"COPY (SELECT key, value FROM read_parquet('{source}') ORDER BY key) "
        f"TO '{made}' (FORMAT parquet, COMPRESSION uncompressed)"
    )
    print(json.dumps({"seconds": time.perf_counter() - begun}))


if __name__ == "__main__":
    main(*sys.argv[1:])
