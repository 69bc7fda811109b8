"""The contestants that sort tables, from Parquet to Parquet: DuckDB, Polars and Spark. The time of
the job is that of the query, Python and the package being there."""

import json
from collections.abc import Sequence
from pathlib import Path

from harness.data import Form, Job
from harness.peer import Peer
from harness.processes import Command

JOBS = Path(__file__).with_name("jobs")


class Table(Peer):
    """What those have in common: a Python package whose output is Parquet."""

    form = Form.PARQUET
    package: str

    def install(self) -> None:
        self.place.tools.need_packages("numpy", "pyarrow", self.package)

    def version(self) -> str:
        return self.place.tools.packages[self.package]

    def output(self, job: Job) -> Command:
        made = self.made(job)
        return self.from_parquet(sorted(made.glob("part-*")) if made.is_dir() else [made])

    def from_parquet(self, files: Sequence[Path]) -> Command:
        """A command that writes the records of Parquet files."""
        return Command([self.place.tools.python, JOBS / "from_parquet.py", *files], {})

    def script(self, job: str, *arguments: str | Path) -> Command:
        """One of the scripts for the Python packages."""
        environment = {str(k): str(v) for k, v in self.tuning.get("environment", {}).items()}
        return Command([self.place.tools.python, JOBS / job, *arguments], environment)


class DuckDb(Table):
    name = package = "duckdb"

    def sort(self, job: Job) -> Command:
        settings = self.tuning["settings"] | {"temp_directory": str(self.crew.folder)}
        files = [self.input(job), self.made(job)]
        return self.script("duckdb_sort.py", *files, json.dumps(settings))


class Polars(Table):
    name = package = "polars"

    def sort(self, job: Job) -> Command:
        return self.script("polars_sort.py", self.input(job), self.made(job), self.tuning["engine"])


class Spark(Table):
    name = "spark"
    package = "pyspark"

    def install(self) -> None:
        self.place.tools.need_java()
        super().install()

    def sort(self, job: Job) -> Command:
        conf = self.tuning["conf"] | {"spark.local.dir": str(self.crew.folder / "local")}
        partitions = str(self.tuning["partitions"])
        files = [self.input(job), self.made(job)]
        script = self.script("spark_sort.py", *files, partitions, json.dumps(conf))
        own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(self.place.tools.python)}
        return Command(script.words, {**script.environment, **own})
