"""Unmodified producers of Kafka at the door of a cluster: each message counts once, whatever breaks."""

import contextlib
import json
import random
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from cluster import Cluster, CommandFailed
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer

GRAPH = "web"
PACKINGS = ("none", "gzip", "snappy", "lz4", "zstd")
# Messages of a producer.
COUNT = 2000
# A connection is cut after so many bytes, about.
CUT = 20_000
PATIENCE_SECONDS = 90


class Wrong(Exception):
    """Something is not as it has to be: what."""


@dataclass
class Sent:
    """What was sent so far: edges of which none is like another, and lines that are none."""

    edges: int = 0
    bad: int = 0

    def more(self, count: int) -> list[str]:
        lines = [f"{it} {it + 1_000_000}" for it in range(self.edges, self.edges + count)]
        self.edges += count
        return lines


class Cutter:
    """Passes on what goes to a port, and cuts each connection after a while."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.target = 0
        self.cuts = 0
        self.dice = random.Random("cuts")
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            limit = self.dice.randrange(CUT // 2, CUT * 2)
            for one, other, most in ((near, far, limit), (far, near, 1 << 60)):
                threading.Thread(target=self.copy, args=(one, other, most), daemon=True).start()

    def copy(self, one: socket.socket, other: socket.socket, most: int) -> None:
        with contextlib.suppress(OSError):
            while most > 0 and (piece := one.recv(4096)):
                other.sendall(piece)
                most -= len(piece)
        self.cuts += most <= 0
        for it in (one, other):
            with contextlib.suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def door(cluster: Cluster, *words: object) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The door, and its port. It closes with this, by the signal that Ctrl-C sends."""
    command = cluster.words("door", "kafka", "--json", "--listen", "127.0.0.1:0", *words)
    process = subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE)
    try:
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            raise Wrong(f"the door does not open: status {process.wait()}")
        yield process, int(json.loads(line)["listen"].rpartition(":")[2])
    finally:
        process.send_signal(2)
        try:
            status = process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Wrong("the door does not close") from None
    if status != 0:
        raise Wrong(f"the door closed with status {status}")


def check(cluster: Cluster) -> str:
    """Sends with each producer, and compares what came; what was done."""
    cluster.nile("graph", "create", GRAPH)
    sent, done = Sent(), []
    cutter = Cutter()
    with door(cluster, "--advertise", f"127.0.0.1:{cutter.port}") as (_, port):
        cutter.target = port
        for packing in PACKINGS:
            confluent(cutter.port, sent, packing)
        compare(cluster, sent, "confluent-kafka")
        if cutter.cuts == 0:
            raise Wrong("no connection was cut")
        done.append(f"confluent-kafka, {cutter.cuts} connections cut")
        killed(cluster, cutter.port, sent)
        compare(cluster, sent, "confluent-kafka, the node killed meanwhile")
        done.append("its node killed")
    with door(cluster) as (process, port):
        for packing in ("none", "gzip"):
            kafka_python(port, sent, packing)
        compare(cluster, sent, "kafka-python")
        done.append("kafka-python")
        done.append("kcat" if kcat(port, sent) else "kcat is not run: it is missing")
        compare(cluster, sent, "kcat")
        wrong_requests(port)
        hostile(port)
        if process.poll() is not None:
            raise Wrong("the door has closed")
        confluent(port, sent, "none", bad=3)
        compare(cluster, sent, "after bytes that are no requests")
        # The control: who does not number its messages counts twice.
        unnumbered(port, [f"{it} 7" for it in range(100)] * 2)
        events = state(cluster)["events"]
        if events != sent.edges + 200:
            raise Wrong(f"{events} events, though 200 were not numbered: they cannot be told apart")
    return ", ".join(done)


def state(cluster: Cluster) -> dict[str, int]:
    cluster.nile("graph", "top", GRAPH, "--settled")
    shown = json.loads(cluster.nile("graph", "show", GRAPH, "--json"))
    return shown.get("graph", shown)


def compare(cluster: Cluster, sent: Sent, who: str) -> None:
    it = state(cluster)
    told = (it["events"], it["edges"], it["rejected"])
    right = (sent.edges, sent.edges, sent.bad)
    if told != right:
        raise Wrong(f"{who}: events, edges and rejects are {told} and not {right}")


class Acknowledged:
    """Counts what was acknowledged."""

    def __init__(self) -> None:
        self.count = 0
        self.errors: list[str] = []

    def __call__(self, error: object, _: object) -> None:
        if error is None:
            self.count += 1
        else:
            self.errors.append(str(error))

    def expect(self, count: int, who: str) -> None:
        if self.count != count or self.errors:
            raise Wrong(f"{who}: {self.count} of {count} were acknowledged; {self.errors[:3]}")


def producer(port: int, **settings: object) -> Producer:
    return Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.num.messages": 200,
            "message.timeout.ms": PATIENCE_SECONDS * 1000,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            **settings,
        }
    )


def confluent(port: int, sent: Sent, packing: str, bad: int = 0) -> None:
    lines = sent.more(COUNT) + [f"bad {it}" for it in range(bad)]
    sent.bad += bad
    random.Random(packing).shuffle(lines)
    deliver(producer(port, **{"compression.type": packing}), lines, f"confluent-kafka, {packing}")


def deliver(by: Producer, lines: list[str], who: str) -> None:
    acknowledged = Acknowledged()
    for line in lines:
        by.produce(GRAPH, line, on_delivery=acknowledged)
        by.poll(0)
    by.flush(PATIENCE_SECONDS)
    acknowledged.expect(len(lines), who)


def killed(cluster: Cluster, port: int, sent: Sent) -> None:
    by, acknowledged = producer(port), Acknowledged()
    lines = sent.more(COUNT)
    for at, line in enumerate(lines):
        by.produce(GRAPH, line, on_delivery=acknowledged)
        by.poll(0)
        if at == COUNT // 2:
            by.poll(0.05)
            cluster.mend("n1")
    by.flush(PATIENCE_SECONDS)
    acknowledged.expect(len(lines), "confluent-kafka beside a kill")


def unnumbered(port: int, lines: list[str]) -> None:
    deliver(producer(port, **{"enable.idempotence": False}), lines, "without numbers")


def kafka_python(port: int, sent: Sent, packing: str) -> None:
    by = KafkaProducer(
        bootstrap_servers=f"127.0.0.1:{port}",
        enable_idempotence=True,
        compression_type=None if packing == "none" else packing,
        linger_ms=5,
    )
    try:
        told = [by.send(GRAPH, line.encode()) for line in sent.more(COUNT)]
        for it in told:
            it.get(timeout=PATIENCE_SECONDS)
    finally:
        by.close(timeout=10)


def kcat(port: int, sent: Sent) -> bool:
    program = shutil.which("kcat")
    if program is None:
        return False
    words = [program, "-P", "-b", f"127.0.0.1:{port}", "-t", GRAPH, "-X", "enable.idempotence=true"]
    text = "".join(f"{line}\n" for line in sent.more(COUNT)).encode()
    done = subprocess.run(words, input=text, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    if done.returncode != 0:
        raise Wrong(f"kcat ends with {done.returncode}: {done.stderr.decode(errors='replace')}")
    return True


def wrong_requests(port: int) -> None:
    """What graphs do not have is refused, and said so."""
    acknowledged = Acknowledged()
    by = producer(port, **{"message.timeout.ms": 3000, "topic.metadata.propagation.max.ms": 1000})
    by.produce("no-graph", "1 2", on_delivery=acknowledged)
    by.flush(10)
    if acknowledged.count or "topic" not in " ".join(acknowledged.errors).lower():
        raise Wrong(f"an unknown topic: {acknowledged.errors}")
    by = producer(port, **{"transactional.id": "t", "message.timeout.ms": 3000})
    try:
        by.init_transactions(3)
    except KafkaException:
        return
    raise Wrong("there are transactions")


def hostile(port: int) -> None:
    """Bytes that are no requests: lengths that lie, and noise."""
    dice = random.Random("hostile")
    bodies = [dice.randbytes(dice.randrange(200)) for _ in range(50)]
    # Each request that there is, with what follows being noise, or one length that lies.
    for number in (0, 3, 18, 22):
        for version in range(-1, 14):
            head = number.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True)
            head += bytes(4) + b"\xff\xff"
            bodies += [head, head + b"\x7f" * 8, head + dice.randbytes(60)]
    frames = [len(it).to_bytes(4, "big") + it for it in bodies]
    frames += [b"\x7f\xff\xff\xff", b"\x00\xff\xff\xffabc", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"]
    for frame in frames:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as it:
            it.settimeout(2)
            it.sendall(frame)
            it.shutdown(socket.SHUT_WR)
            while it.recv(4096):
                pass


def run(cluster: Cluster) -> str:
    """All of the above; a text of what was done, or an error."""
    try:
        return check(cluster)
    except CommandFailed as error:
        raise Wrong(str(error)) from error
    finally:
        with contextlib.suppress(CommandFailed):
            cluster.nile("graph", "remove", GRAPH)


