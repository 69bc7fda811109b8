"""spark_sort.py INPUT OUTPUT PARTITIONS SETTINGS: sorts a Parquet file with Spark, whose settings
are given as JSON, and prints the seconds that it took once a session was there."""

import json
import sys
import time

from pyspark import SparkConf
from pyspark.sql import SparkSession


def main(source: str, made: str, partitions: str, settings: str) -> None:
    conf = SparkConf().setAll(list(json.loads(settings).items()))
    conf.set("spark.sql.shuffle.partitions", partitions)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    begun = time.perf_counter()
    session.read.parquet(source).sort("key").write.parquet(made)
    seconds = time.perf_counter() - begun
    session.stop()
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
