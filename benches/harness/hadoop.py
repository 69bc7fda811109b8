"""Hadoop MapReduce's TeraSort: in one JVM, and on HDFS and YARN on this machine. The time of the
job is from TeraSort's first word to its last, the JVM being there."""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from xml.sax.saxutils import escape

from harness.data import Form, Job
from harness.peer import Peer
from harness.processes import MARK, Command, CommandFailed, Finished, gist
from harness.tuning import OPENS
from harness.webhdfs import WebHdfs

# Every part of Hadoop reads some of these, after its defaults; so each has all properties.
SITES = ("core-site", "hdfs-site", "mapred-site", "yarn-site", "capacity-scheduler")

LOG = """log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""

# What a ResourceManager listens for.
RESOURCEMANAGER = ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")

TERASORT = "org.apache.hadoop.examples.terasort.TeraSort"
SHELL = "org.apache.hadoop.fs.FsShell"

# How long daemons may take to be up, and files to be put.
LIMIT_SECONDS = 120
PUT_SECONDS = 1800


class Hadoop(Peer):
    """What both have in common."""

    form = Form.BINARY
    # HDFS or a copy has the input, tasks write what they map, fetch and merge, and then the output.
    room = 6
    archives: Path
    java: Path

    def install(self) -> None:
        self.java = Path(self.place.tools.need_java()).resolve()
        self.archives = self.place.tools.need_hadoop(self.tuning["version"])

    def version(self) -> str:
        said = subprocess.run([self.java, "-version"], capture_output=True, text=True, check=True)
        return f"{self.tuning['version']}, {said.stderr.splitlines()[0]}"

    @property
    def conf(self) -> Path:
        return self.crew.folder / "conf"

    def configure(self, addresses: Mapping[str, str]) -> None:
        """Writes the configuration: the tuning, and where things are."""
        self.conf.mkdir()
        properties = {**self.tuning["site"], **addresses}
        for site in SITES:
            (self.conf / f"{site}.xml").write_text(xml(properties))
        (self.conf / "log4j.properties").write_text(LOG)

    def java_command(self, main: str, *arguments: str | Path) -> Command:
        path = f"{self.conf}:{self.archives}/*"
        environment = {"HADOOP_CONF_DIR": str(self.conf), "JAVA_HOME": str(self.java.parents[1])}
        options = [*self.tuning["java"], OPENS, "-cp", path]
        return Command([self.java, *options, main, *arguments], environment)

    def own_seconds(self, finished: Finished) -> float:
        return terasort_seconds(finished.err)


class HadoopLocal(Hadoop):
    name = "hadoop-local"

    def begin(self) -> None:
        temporary = str(self.crew.folder / "tmp")
        self.configure({"hadoop.tmp.dir": temporary, "fs.defaultFS": "file:///"})

    def sort(self, job: Job) -> Command:
        return self.java_command(TERASORT, self.input(job), self.made(job))

    def output(self, job: Job) -> Sequence[Path]:
        return sorted(self.made(job).glob("part-r-*"))


class HadoopYarn(Hadoop):
    name = "hadoop-yarn"
    copies = True

    # Each daemon, and what those log with which the others register.
    DAEMONS = {
        "namenode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
        "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
        "resourcemanager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
        "nodemanager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
    }
    SIGNS = {"namenode": "registerDatanode", "resourcemanager": "from NEW to RUNNING"}

    def begin(self) -> None:
        places = self.places()
        self.configure(places)
        self.files = WebHdfs(places["dfs.namenode.http-address"])
        format_it = self.java_command(self.DAEMONS["namenode"], "-format", "-nonInteractive")
        self.crew.run(format_it, LIMIT_SECONDS)
        daemons = {}
        for name, main in self.DAEMONS.items():
            log = self.log(name)
            daemons[name] = self.crew.start(self.java_command(main), Path("/dev/null"), log)
        self.wait(daemons)
        for job in self.place.data.jobs:
            put = self.java_command(SHELL, "-put", self.input(job), f"/{job.name}.in")
            self.crew.run(put, PUT_SECONDS)

    def wait(self, daemons: Mapping[str, "subprocess.Popen[bytes]"]) -> None:
        """Until the daemons have found each other."""
        patience = time.monotonic() + LIMIT_SECONDS
        while not all(sign in self.log(name).read_text() for name, sign in self.SIGNS.items()):
            ended = [name for name, daemon in daemons.items() if daemon.poll() is not None]
            if ended or time.monotonic() > patience:
                name = ended[0] if ended else "namenode"
                what = "ended" if ended else f"is not up after {LIMIT_SECONDS} s"
                why = gist(self.log(name).read_text(errors="replace"))
                raise CommandFailed(f"{name} {what}: {why}")
            time.sleep(0.2)

    def clear(self, job: Job) -> None:
        self.files.remove(f"/{job.name}.out")

    def sort(self, job: Job) -> Command:
        names = (f"/{job.name}.in", f"/{job.name}.out")
        return self.java_command(TERASORT, *self.of_job(), *names)

    def output(self, job: Job) -> Command:
        script: list[str | Path] = [sys.executable, Path(__file__).with_name("webhdfs.py")]
        return Command([*script, self.files.address, f"/{job.name}.out", "part-r-"], {})

    def of_job(self) -> list[str]:
        """Properties that are said with a job."""
        properties = self.tuning.get("job", {}).items()
        return [word for name, value in properties for word in ("-D", f"{name}={value}")]

    def log(self, name: str) -> Path:
        return self.crew.folder / f"{name}.log"

    def places(self) -> dict[str, str]:
        """Where files lie, and on which ports of the loopback interface who listens."""
        folder = self.crew.folder
        path = f"{self.conf}:{self.archives}/*"
        listeners = [
            *(f"dfs.namenode.{it}-address" for it in ("rpc", "http")),
            *(f"dfs.datanode.{it}address" for it in ("", "ipc.", "http.")),
            *(f"yarn.resourcemanager.{it}address" for it in RESOURCEMANAGER),
            *(f"yarn.nodemanager.{it}address" for it in ("", "localizer.", "webapp.")),
        ]
        ports = free_ports(len(listeners) + 1)
        addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(listeners, ports, strict=False)
        }
        return addresses | {
            "fs.defaultFS": f"hdfs://{addresses['dfs.namenode.rpc-address']}",
            "mapreduce.shuffle.port": str(ports[-1]),
            "yarn.resourcemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.aux-services": "mapreduce_shuffle",
            "hadoop.tmp.dir": str(folder / "tmp"),
            "dfs.namenode.name.dir": f"file://{folder}/names",
            "dfs.datanode.data.dir": f"file://{folder}/blocks",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "yarn.nodemanager.local-dirs": str(folder / "local"),
            "yarn.nodemanager.log-dirs": str(folder / "logs"),
            "yarn.nodemanager.env-whitelist": f"JAVA_HOME,HADOOP_CONF_DIR,{MARK}",
            "yarn.app.mapreduce.am.staging-dir": "/staging",
            "yarn.application.classpath": path,
            "mapreduce.application.classpath": path,
        }


def terasort_seconds(log: str) -> float:
    """The time between the two lines with which TeraSort begins and ends."""
    stamps = [
        datetime.strptime(found, "%Y-%m-%d %H:%M:%S,%f")
        for word in ("starting", "done")
        for found in re.findall(rf"^(\S+ \S+) INFO TeraSort: {word}$", log, re.MULTILINE)
    ]
    if len(stamps) != 2:
        raise CommandFailed("TeraSort's log does not say when it began and ended")
    return (stamps[1] - stamps[0]).total_seconds()


def xml(properties: Mapping[str, str]) -> str:
    lines = (
        f"<property><name>{escape(name)}</name><value>{escape(str(value))}</value></property>\n"
        for name, value in properties.items()
    )
    return f"<configuration>\n{''.join(lines)}</configuration>\n"


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [it.getsockname()[1] for it in sockets]
    finally:
        for it in sockets:
            it.close()
