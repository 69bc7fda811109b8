"""What the harness promises, with small stand-ins for contestants."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

BENCHES = Path(__file__).parent.parent.parent
sys.path.insert(0, str(BENCHES))

from harness import data, hadoop, install, page, program, tuning, webhdfs  # noqa: E402
from harness import record as recording  # noqa: E402
from harness.data import Data, Form, Job, Records, WrongOutput  # noqa: E402
from harness.peer import FAILURES, Peer, Place  # noqa: E402
from harness.processes import (  # noqa: E402
    Command,
    CommandFailed,
    Crew,
    Memory,
    environment_of,
    gist,
    pids,
)
from peers import judge, report, result, rounds, show  # noqa: E402
from peers.main import PEERS, room  # noqa: E402


def record(key: int) -> bytes:
    return key.to_bytes(10) + bytes([key % 256] * 90)


class Tuning(unittest.TestCase):
    def test_placeholders_become_what_the_machine_has(self) -> None:
        words = {"{cpus}": "2", "{cpus+1}": "3"}
        read = tuning.read('[a]\nb = ["-t", "{cpus}"]\nc = { d = "{cpus+1}", e = 3 }', words)
        self.assertEqual(read, {"a": {"b": ["-t", "2"], "c": {"d": "3", "e": 3}}})

    def test_no_placeholder_is_left_in_the_file(self) -> None:
        read = tuning.read(tuning.FILE.read_text(), tuning.words())
        self.assertNotIn("{", json.dumps(read).replace('{"', "").replace("{}", ""))

    def test_own_settings_replace_the_usual_ones_one_by_one(self) -> None:
        usual = {"a": {"site": {"x": "1", "y": "2"}, "what": "w"}, "b": 1}
        own = {"a": {"site": {"y": "3"}}, "c": 2}
        both = {"a": {"site": {"x": "1", "y": "3"}, "what": "w"}, "b": 1, "c": 2}
        self.assertEqual(tuning.merged(usual, own), both)

    def test_settings_are_lines_for_people(self) -> None:
        table = {"title": "A", "what": "b", "options": ["-x", "-y"], "conf": {"c": "d"}}
        self.assertEqual(tuning.lines(table), ["options = -x -y", "conf: c = d"])


class Processes(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.crew = Crew("stand-in", Path(self.folder.name))

    def python(self, program: str) -> Command:
        return Command([sys.executable, "-c", program], {})

    def test_a_command_is_timed_and_heard(self) -> None:
        program = "import time; time.sleep(0.2); print('done')"
        finished = self.crew.run(self.python(program), 20)
        self.assertEqual(finished.out, "done\n")
        self.assertTrue(0.2 <= finished.seconds < 5, finished.seconds)

    def test_what_fails_or_takes_too_long_says_why(self) -> None:
        with self.assertRaisesRegex(CommandFailed, "status 3.*: no room"):
            self.crew.run(self.python("import sys; print('no room'); sys.exit(3)"), 20)
        with self.assertRaisesRegex(CommandFailed, "it had 0 s"):
            self.crew.run(self.python("import time; time.sleep(60)"), 0.3)

    def test_the_cause_is_found_in_what_java_says(self) -> None:
        log = "Exception: it failed\n\tat a.b(C.java:1)\nCaused by: no class D\n\t... 6 more\n"
        self.assertEqual(gist(log + "shutting down"), "Caused by: no class D")
        self.assertEqual(gist("one\ntwo\n"), "two")

    def test_memory_is_that_of_all_processes_of_the_crew(self) -> None:
        held = "held = b'x' * (40 << 20); import time; time.sleep(0.6)"
        child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {held!r}])"
        memory = Memory(self.crew)
        memory.start()
        self.crew.run(self.python(child), 20)
        most = memory.end()
        self.assertTrue(40 << 20 < most < 120 << 20, most)

    def test_processes_that_were_left_behind_are_ended(self) -> None:
        sleeper = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
        left = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', %r], "
        self.crew.run(self.python(left % sleeper + "start_new_session=True)"), 20)
        self.assertEqual(len(self.crew.members()), 1)
        time.sleep(0.3)
        self.crew.end()
        self.assertEqual(self.crew.members(), [])


class Outputs(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.keys = [3, 1, 2, 2]
        self.given = self.look(self.keys)

    def look(self, keys: list[int], rest: bytes = b"") -> Records:
        file = Path(self.folder.name) / "records"
        file.write_bytes(b"".join(map(record, keys)) + rest)
        return data.look_at([file])

    def test_the_checksum_is_the_sum_of_crc_32s(self) -> None:
        self.assertEqual(self.given.checksum, f"{sum(zlib.crc32(record(k)) for k in self.keys):x}")

    def test_a_sorted_output_is_taken(self) -> None:
        data.compare(self.look(sorted(self.keys)), self.given)

    def test_a_wrong_output_is_refused(self) -> None:
        for keys, rest, why in [
            ([1, 2, 3], b"", "3 records of 4"),
            ([1, 2, 3, 3], b"", "checksum"),
            ([1, 3, 2, 2], b"", "out of order"),
            ([1, 2, 2, 3], b"x", "1 bytes of a record"),
        ]:
            with self.assertRaisesRegex(WrongOutput, why):
                data.compare(self.look(keys, rest), self.given)

    def test_an_output_can_be_what_a_command_writes(self) -> None:
        self.look(sorted(self.keys))
        file = Path(self.folder.name) / "records"
        data.compare(data.look_at(Command(["cat", file], {})), self.given)
        with self.assertRaisesRegex(WrongOutput, "cannot be read"):
            data.look_at(Command(["false"], {}))


class StandIn(Peer):
    """Sorts lines of 99 characters; one that is `wrong` does nothing but copy."""

    name = "gnu-sort"
    form = Form.ASCII
    wrong = False

    def version(self) -> str:
        return "1"

    def sort(self, job: Job) -> Command:
        words = ["cat"] if self.wrong else ["sort", "--key=1.1,1.10"]
        script = f"{' '.join(words)} {self.input(job)} > {self.made(job)}"
        return Command(["sh", "-c", script], {"LC_ALL": "C"})

    def own_seconds(self, finished) -> float:
        return finished.seconds

    def output(self, job: Job) -> list[Path]:
        return [self.made(job)]


class Wrong(StandIn):
    wrong = True


class Missing(StandIn):
    def install(self) -> None:
        raise install.NotInstalled("it is not to be had")


class Looking(StandIn):
    """Looks, before its first sort, which of the records are in the page cache."""

    cached: dict[Form, bool] | None = None

    def sort(self, job: Job) -> Command:
        files = {form: self.place.data.file(form, job) for form, _ in self.place.data.known}
        self.cached = self.cached or {form: is_cached(file) for form, file in files.items()}
        return super().sort(job)


class LookingAtACopy(Looking):
    copies = True


def is_cached(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False


class Rounds(unittest.TestCase):
    def setUp(self) -> None:
        # Not in memory, as `/tmp` may be.
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        work = Path(folder.name)
        tools = install.Tools(work / "tools", {})
        jobs = [Job("whole", 3000), Job("tiny", 1000)]
        given = Data(work / "data", jobs, work / "nile", tools)
        given.crew.folder.mkdir()
        for job in jobs:
            file = given.file(Form.ASCII, job)
            lines = (f"{n * 7919 % 3001:010}{n:089}\n" for n in range(job.records))
            file.write_text("".join(lines))
            given.known[Form.ASCII, job] = data.look_at([file])
        self.data = given
        table = {"gnu-sort": {"title": "Stand-in", "what": "sorts"}}
        self.place = Place(work, work, work, tools, given, table)

    def test_turns_rotate(self) -> None:
        entries = [rounds.Entry(StandIn(self.place)) for _ in range(3)]
        self.assertEqual(rounds.rotated(entries, 4), [entries[1], entries[2], entries[0]])

    def test_who_sorts_is_measured_and_who_does_not_is_out(self) -> None:
        kinds = (StandIn, Wrong, Missing)
        right, wrong, missing = entries = [rounds.Entry(kind(self.place)) for kind in kinds]
        rounds.install(entries)
        rounds.run(entries, self.data, 2)
        self.assertEqual((len(right.turns), right.failed, right.not_run), (2, None, None))
        self.assertTrue(all(turn.sort.seconds > 0 for turn in right.turns))
        self.assertEqual(wrong.turns, [])
        self.assertRegex(wrong.failed or "", "out of order")
        self.assertEqual(missing.not_run, "it is not to be had")
        self.assertFalse(right.peer.crew.folder.exists())


    def test_what_a_contestant_does_not_read_is_not_in_the_page_cache(self) -> None:
        for job in self.data.jobs:
            file = self.data.file(Form.BINARY, job)
            file.write_bytes(self.data.file(Form.ASCII, job).read_bytes())
            self.data.known[Form.BINARY, job] = self.data.known[Form.ASCII, job]
        for kind in (Looking, LookingAtACopy):
            for job in self.data.jobs:
                self.data.file(Form.ASCII, job).read_bytes()
            entry = rounds.Entry(looking := kind(self.place))
            rounds.run([entry], self.data, 1)
            self.assertIsNone(entry.failed)
            self.assertEqual(looking.cached, {Form.ASCII: not kind.copies, Form.BINARY: False})


def measured(seconds: float, memory: int = 1 << 30) -> judge.Measured:
    return judge.Measured(seconds, seconds, seconds, 0.1, memory)


class Disk(unittest.TestCase):
    def test_who_sorts_alone_needs_less_disk_than_all_together(self) -> None:
        def of(*names: str) -> int:
            return room([PEERS["reference"], *(PEERS[name] for name in names)])

        self.assertEqual(room(list(PEERS.values())), 9)
        self.assertEqual([of("hadoop-local"), of("duckdb"), of()], [7, 5, 4])


class Targets(unittest.TestCase):
    GIGABYTE = 1_000_000_000

    def judge(self, ours: judge.Measured) -> list[judge.Target]:
        peers = {"duckdb": measured(5.0, 3 << 30), "reference": measured(0.9, 2 << 30)}
        return judge.judge(ours, peers, self.GIGABYTE)

    def test_all_are_met_up_to_their_limits(self) -> None:
        targets = self.judge(measured(1.0))
        self.assertEqual(len(targets), 5)
        self.assertTrue(all(target.met for target in targets))
        self.assertEqual(judge.problems(targets, self.GIGABYTE, control=False), [])

    def test_what_is_too_slow_or_too_large_misses_them(self) -> None:
        targets = self.judge(measured(1.1, 4 << 30))
        self.assertFalse(any(target.met for target in targets))
        self.assertEqual(len(judge.problems(targets, self.GIGABYTE, control=False)), 5)
        # Of less data nothing is promised.
        self.assertEqual(judge.problems(targets, 10_000_000, control=False), [])

    def test_what_is_no_number_meets_nothing(self) -> None:
        times = [it for it in self.judge(measured(float("nan"))) if it.name != "memory"]
        self.assertFalse(any(target.met for target in times))

    def test_a_control_has_to_miss(self) -> None:
        missed = judge.problems(self.judge(measured(9.0, 4 << 30)), self.GIGABYTE, control=True)
        self.assertEqual(missed, [])
        met = judge.problems(self.judge(measured(1.0)), self.GIGABYTE, control=True)
        self.assertEqual(len(met), 3)


class Result(unittest.TestCase):
    def document(self) -> dict:
        turn = {"sort": {"seconds": 0.5}}
        ran = {"seconds": 0.5, "first_seconds": 0.8, "command_seconds": 0.6}
        ran |= {
            "start_up_seconds": 0.1,
            "peak_memory_bytes": 1 << 30,
            "times_nileos": 1.0,
            "turns": [turn, turn],
        }
        common = {"what": "w", "tuning": ["a = b"], "not_run": None, "failed": None, "turns": []}
        machine = {"cpus": 2, "processor": "p", "memory_bytes": 1 << 34, "kernel": "k"}
        target = {"name": "x", "of": "o", "ratio": 2.0, "target": "at least 3", "met": False}
        return {
            "records": 10_000_000,
            "bytes": 10**9,
            "rounds": 2,
            "control": False,
            "promised": True,
            "date": "today",
            "machine": machine | {"system": "s"},
            "contestants": [
                {**common, "name": "nileos", "title": "NileOS", **ran},
                {**common, "name": "x", "title": "X & <co>", "not_run": "no java"},
            ],
            "targets": [target],
            "problems": ["missed: x"],
        }

    def test_the_table_shows_all_runs_and_what_was_not_run(self) -> None:
        text = show.text(self.document())
        row = r"NileOS +0.50 s +0.50 0.50 +1.00 +0.80 s +0.60 s +0.10 s +1024 MiB +1.07"
        self.assertRegex(text, row)
        self.assertIn("not run: no java", text)
        self.assertRegex(text, r"x +o +2.00 +at least 3 +MISSED")

    def test_what_is_kept_of_a_run_is_appended_to_a_file(self) -> None:
        words = ["--runs", "1", "--record", "FILE", "2026-01-02", "abc", "2 CPUs, some", "odd"]
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "peers.csv"
            file.write_text("date,...\n")
            words[words.index("FILE")] = str(file)
            options = program.parser("peers").parse_args(words)
            figures = result.recorded(self.document())
            recording.append(options.record, "peers 1 GB", figures)
            recording.append(None, "peers 1 GB", figures)
            lines = file.read_text().splitlines()
        start = '2026-01-02,abc,"2 CPUs, some",peers 1 GB,'
        self.assertEqual(
            lines,
            [
                "date,...",
                f"{start}NileOS,0.5,s,odd",
                f"{start}NileOS,0.5,s,odd",
                f"{start}NileOS memory,1.074,x the data,odd",
                f"{start}x: o,2,x,odd; target missed",
            ],
        )
        self.assertEqual(recording.digits(12345.6), "12346")

    def test_the_page_needs_no_other_file(self) -> None:
        plot = page.drawing("<?xml version='1.0'?>\n<svg><text>here</text></svg>")
        made = report.whole_page(self.document(), [plot])
        self.assertIn("<svg><text>here", made)
        self.assertIn("X &amp; &lt;co&gt;", made)
        for outside in ("src=", "href=", "<link", "<?xml"):
            self.assertNotIn(outside, made)


class Interrupt(unittest.TestCase):
    def test_nothing_is_left_of_what_was_interrupted(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "release").mkdir()
            (folder / "work").mkdir()
            nile = folder / "release/nile"
            nile.write_text("#!/bin/sh\n[ $1 = run ] || exit 0\ntouch $0.ran\nexec sleep 60\n")
            nile.chmod(0o755)
            settings = {"CARGO_TARGET_DIR": name, "NILE_PROGRAMS": f"{name}/release"}
            settings["NILE_PACKAGES"] = name
            words = [sys.executable, str(BENCHES), "peers"]
            words += ["--mebibytes", "1", "--runs", "1", "--only", "gnu-sort"]
            environment = os.environ | settings | {"TMPDIR": str(folder / "work")}
            harness = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
            patience = time.monotonic() + 30
            while not (folder / "release/nile.ran").exists() and time.monotonic() < patience:
                time.sleep(0.02)
            mark = f"{folder}/work".encode()
            begun = [it for pid in pids() for it in environment_of(pid) if mark in it]
            self.assertTrue(begun)
            harness.terminate()
            _, said = harness.communicate(timeout=30)
            self.assertEqual(harness.returncode, 130)
            self.assertIn("interrupted", said)
            self.assertEqual(list((folder / "work").iterdir()), [])
            left = [it for pid in pids() for it in environment_of(pid) if mark in it]
            self.assertEqual(left, [])


class NameNode(BaseHTTPRequestHandler):
    """A stand-in for WebHDFS with two parts of an output."""

    PARTS = {"part-r-00000": b"ab", "part-r-00001": b"cd", "_SUCCESS": b"no"}
    removed: list[str] = []

    def do_GET(self) -> None:
        path, _, what = self.path.removeprefix("/webhdfs/v1").partition("?op=")
        if what == "LISTSTATUS" and path == "/made":
            names = [{"pathSuffix": name} for name in self.PARTS]
            self.answer(200, json.dumps({"FileStatuses": {"FileStatus": names}}).encode())
        elif what == "OPEN":
            self.answer(200, self.PARTS[path.removeprefix("/made/")])
        else:
            self.answer(404, b"{}")

    def do_DELETE(self) -> None:
        self.removed.append(self.path)
        self.answer(200, b"{}")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None: ...


class Files(unittest.TestCase):
    def setUp(self) -> None:
        server = HTTPServer(("127.0.0.1", 0), NameNode)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.files = webhdfs.WebHdfs(f"127.0.0.1:{server.server_port}")

    def test_files_of_hdfs_are_named_read_and_removed(self) -> None:
        self.assertEqual(self.files.names("/made"), sorted(NameNode.PARTS))
        self.assertEqual(self.files.names("/nothing"), [])
        with self.files.open("/made/part-r-00001") as file:
            self.assertEqual(file.read(), b"cd")
        self.files.remove("/made")
        self.assertEqual(NameNode.removed, ["/webhdfs/v1/made?op=DELETE&recursive=true"])

    def test_an_output_is_written_part_by_part(self) -> None:
        words = [sys.executable, webhdfs.__file__, self.files.address, "/made", "part-r-"]
        made = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(made, b"abcd")

    def test_who_cannot_be_asked_has_failed(self) -> None:
        with self.assertRaises(FAILURES):
            webhdfs.WebHdfs("127.0.0.1:1").names("/made")


class Hadoop(unittest.TestCase):
    def test_the_job_s_time_is_read_from_its_log(self) -> None:
        log = (
            "2026-01-31 23:59:59,500 INFO TeraSort: starting\n"
            "2026-02-01 00:00:00,000 INFO Job: map 100% done\n"
            "2026-02-01 00:00:10,750 INFO TeraSort: done\n"
        )
        self.assertEqual(hadoop.terasort_seconds(log), 11.25)
        with self.assertRaises(CommandFailed):
            hadoop.terasort_seconds(log.splitlines()[0])

    def test_properties_are_escaped(self) -> None:
        self.assertIn("<value>a &lt; b</value>", hadoop.xml({"n": "a < b"}))

    def test_ports_are_free_and_differ(self) -> None:
        self.assertEqual(len(set(hadoop.free_ports(12))), 12)


if __name__ == "__main__":
    unittest.main()
