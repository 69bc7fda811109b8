"""What the harness promises, with small stand-ins for guests."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).parent.parent
sys.path.insert(0, str(HERE.parent))

from harness import tuning  # noqa: E402
from harness.processes import CommandFailed, environment_of, pids  # noqa: E402
from harness.target import problems  # noqa: E402
from linux import guests, initramfs, judge, kernel, node, page, text, turns  # noqa: E402
from linux.document import document, recorded  # noqa: E402
from linux.guests import (  # noqa: E402
    Counts,
    Guest,
    Noise,
    Place,
    Sort,
    Switch,
    Task,
    Turn,
    WrongOutput,
)
from linux.main import words_for  # noqa: E402


def tables(cores: int) -> dict[str, Any]:
    return tuning.read((HERE / "tuning.toml").read_text(), words_for(cores))


TABLES = tables(4)


class Archive(unittest.TestCase):
    def test_the_archive_has_what_it_is_made_of(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            module = Path(name) / "a.ko"
            module.write_bytes(b"12345")
            made = initramfs.archive(Path("/bin/true"), [module])
        found = self.entries(made)
        self.assertEqual(found["modules/00-a.ko"][1], b"12345")
        self.assertEqual(found["init"][1], Path("/bin/true").read_bytes())
        self.assertEqual(found["dev/console"][0] & 0o170000, 0o020000)
        libraries = [name for name in found if "libc.so" in name]
        self.assertEqual(len(libraries), 1)
        names = list(found)
        self.assertEqual(names[-1], "TRAILER!!!")
        for name in names:
            folder = str(Path(name).parent)
            self.assertTrue(folder == "." or names.index(folder) < names.index(name), name)

    def entries(self, made: bytes) -> dict[str, tuple[int, bytes]]:
        """The files of an archive: modes and bytes."""
        found, at = {}, 0
        while at < len(made):
            self.assertEqual(made[at : at + 6], b"070701")
            numbers = [int(made[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
            mode, size, length = numbers[1], numbers[6], numbers[11]
            name = made[at + 110 : at + 110 + length - 1].decode()
            at += -(-(110 + length) // 4) * 4
            found[name] = (mode, made[at : at + size])
            at += -(-size // 4) * 4
        return found

    def test_modules_come_after_those_that_they_need(self) -> None:
        def module(*needs: str) -> bytes:
            return struct.pack("<I", 7) + b"\0depends=" + ",".join(needs).encode() + b"\0x=y\0"

        with tempfile.TemporaryDirectory() as name:
            files = {}
            for stem, needs in (("a", ["b", "built_in"]), ("b", ["c"]), ("c", []), ("d", ["b"])):
                files[stem] = Path(name) / f"{stem}.ko"
                files[stem].write_bytes(module(*needs))
            order = kernel.in_order(("a", "d"), files)
        self.assertEqual([path.stem for path in order], ["c", "b", "a", "d"])


def place(work: Path) -> Place:
    return Place(work, work / "nile", work, TABLES)


SAID = {
    "sort": {
        "valid": True,
        "records": 10,
        "checksum": "ab",
        "given_checksum": "ab",
        "keys": ["01", "09"],
        "seconds": 0.5,
        "workers": [2, 3],
        "counts": {
            "interrupts": {"LOC": [9, 9, 1, 2], "RES": [0, 0, 0, 3], "disk": [7, 0, 0, 0]},
            "context_switches": 11,
            "page_faults": 12,
            "copied_by_linux_bytes": 13,
        },
    },
    "fwq": {
        "cpu": 3,
        "times": [2000, 4000],
        "cycles_per_second": 2e9,
        "counts": {"interrupts": {"LOC": [5, 5, 5, 1]}},
    },
    "switch": {"pass_ns": 9000.0, "switch_ns": 6000.0},
}


class LinuxGuest(unittest.TestCase):
    TASK = Task(10, 2)

    def test_its_document_is_read(self) -> None:
        turn = guests.linux_turn([SAID], self.TASK)
        counts = turn.sort.counts
        self.assertEqual(counts.interrupts, {"LOC": [1, 2], "RES": [0, 3]})
        self.assertEqual(counts.interrupts_per_worker, 3.0)
        self.assertIsNone(counts.system_calls)
        self.assertEqual(turn.noise.micros, [1.0, 2.0])
        self.assertEqual(turn.noise.interrupts, {"LOC": 1})
        self.assertEqual(turn.switch, Switch(9.0, 6.0))

    def test_machines_that_share_a_sort_are_read_together(self) -> None:
        def machine(**differs: Any) -> dict[str, Any]:
            return {"sort": {**SAID["sort"], "records": 5, **differs}}

        counts = {**SAID["sort"]["counts"], "interrupts": {"CAL": [0, 0, 4, 4]}}
        first = machine(checksum="a", given_checksum="c")
        second = machine(checksum="4", given_checksum="2", keys=["09", "0a"], counts=counts)
        turn = guests.linux_turn([first, second], self.TASK)
        self.assertEqual((turn.sort.records, turn.sort.checksum), (10, "e"))
        self.assertEqual(turn.sort.counts.interrupts["CAL"], [0, 0, 4, 4])
        self.assertEqual(turn.sort.counts.interrupts_per_worker, 14 / 4)
        self.assertEqual(turn.sort.counts.context_switches, 22)
        self.assertIsNone(turn.noise)
        self.assertIsNone(turn.switch)
        for wrong in ({"checksum": "5"}, {"keys": ["08", "0a"]}):
            with self.assertRaises(WrongOutput):
                guests.linux_turn([first, {"sort": {**second["sort"], **wrong}}], self.TASK)

    def test_what_is_wrong_is_no_figure(self) -> None:
        for part in ({"valid": False}, {"records": 9}, {"given_checksum": "ac"}):
            with self.assertRaises(WrongOutput):
                guests.linux_turn([{**SAID, "sort": {**SAID["sort"], **part}}], self.TASK)
        with self.assertRaisesRegex(CommandFailed, "no disk"):
            guests.linux_turn([{"error": "no disk"}], self.TASK)

    def test_the_command_line_has_what_the_tuning_says(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            where = place(Path(name))
            linux = guests.Linux("linux-isolated", where, Path("k"), Path("i"), "6")
            line = linux.line(self.TASK, 1).split()
        self.assertIn("nohz_full=2,3", line)
        self.assertIn("nile.io=direct", line)
        self.assertIn("nile.records=10", line)

    def test_half_of_the_cores_sort(self) -> None:
        for cores, sorting, others in ((2, "1", "0"), (3, "2", "0,1"), (4, "2,3", "0,1")):
            said = tables(cores)
            where = Place(*[Path()] * 3, said)
            self.assertEqual(where.workers, cores // 2)
            devices = others.split(",")[-1]
            self.assertIn(f"management = [0]\nnetwork = [{devices}]\n", node.roles(where))
            self.assertIn(
                f"isolcpus=nohz,domain,managed_irq,{sorting}", said["linux-isolated"]["append"]
            )
            self.assertIn(f"irqaffinity={others} ", said["linux-isolated"]["append"])
            self.assertEqual(said["nileos-dedicated"]["config"], f"idle.dedicated = [{sorting}]")


def core(roles: list[str], calls: int, wakes: int = 0, **interrupts: int) -> dict:
    counts = {"interrupts": interrupts, "wakes": wakes, "system_calls": calls}
    return {"roles": roles, "generation": 1, **counts}


class Node(unittest.TestCase):
    BEFORE = {
        ("n1", 0): core(["management"], 0, tick=4),
        ("n1", 2): core(["worker"], 5),
        ("n2", 2): core(["worker"], 5),
    }
    AFTER = {
        ("n1", 0): core(["management"], 0, tick=9),
        ("n1", 2): core(["worker"], 7, wakes=2, signal=3),
        ("n2", 2): core(["worker"], 9, wakes=4, signal=4),
    }

    def test_only_what_workers_had_counts(self) -> None:
        counts = node.counts(self.BEFORE, self.AFTER)
        self.assertEqual(counts.interrupts, {"signal": [3, 4]})
        self.assertEqual(counts.interrupts_per_worker, 3.5)
        self.assertEqual(counts.interruptions_per_worker, 0.5)
        self.assertEqual((counts.system_calls, counts.page_faults), (6, 0))
        self.assertIsNone(counts.context_switches)

    def test_no_interrupts_are_none(self) -> None:
        self.assertEqual(node.counts(self.AFTER, self.AFTER).interrupts_per_worker, 0.0)


def turn(
    seconds: float,
    interrupts: float = 0.0,
    checksum: str = "ab",
    switch: Switch | None = None,
) -> Turn:
    counts = Counts({}, interrupts, interrupts, None, 0, 5, 0)
    noise = Noise([1.0] * 98 + [2.0, 102.0], {"LOC": 2})
    return Turn(Sort(seconds, 10, checksum, counts), noise, switch)


class StandIn(Guest):
    """Says what it is told to."""

    said = turn(1.0)

    def version(self) -> str:
        return "1"

    def turn(self, task: Task) -> Turn:
        return self.said


class Moody(StandIn):
    """Gives what comes of one attempt after the other."""

    def __init__(self, name: str, where: Place, attempts: list[Turn | Exception]) -> None:
        super().__init__(name, where)
        self.attempts = iter(attempts)

    def turn(self, task: Task) -> Turn:
        match next(self.attempts):
            case Exception() as why:
                raise why
            case Turn() as made:
                return made


class Judging(unittest.TestCase):
    def test_quanta_are_put_together(self) -> None:
        quanta = judge.quanta([turn(1.0).noise, turn(1.0).noise])
        self.assertEqual((quanta.count, quanta.least, quanta.median), (200, 1.0, 1.0))
        self.assertEqual((quanta.p99, quanta.p999, quanta.most), (102.0, 102.0, 102.0))
        self.assertAlmostEqual(quanta.lost, 1 - 200 / (196 + 4 + 204))
        self.assertAlmostEqual(quanta.interrupts_per_second, 4 / 404e-6)

    def test_the_histogram_has_every_quantum_once(self) -> None:
        times = [1.0, 1.01, 1.5, 40.0, 40.1]
        bins = judge.histogram(times)
        self.assertEqual(sum(count for _, count in bins), len(times))
        self.assertEqual(bins[0], (1.0, 2))
        self.assertTrue(all(edge <= 40.1 for edge, _ in bins))

    def test_targets_are_met_up_to_their_limits(self) -> None:
        ours = judge.measured([turn(1.0), turn(3.0), turn(2.0)])
        linux = {"slow": judge.measured([turn(9.0)]), "fast": judge.measured([turn(2.0)])}
        targets = judge.judge({"n": ours}, linux, ["n"])
        self.assertEqual([target.met for target in targets], [True, True, True])
        self.assertIn("fast", targets[0].of)
        self.assertEqual(problems(targets, promised=True, control=False), [])
        self.assertEqual(len(problems(targets, promised=True, control=True)), 3)

    def test_what_is_slower_or_interrupted_misses_them(self) -> None:
        ours, linux = judge.measured([turn(2.1, 0.5)]), judge.measured([turn(2.0)])
        targets = judge.judge({"n": ours}, {"l": linux}, ["n", "failed"])
        self.assertEqual([target.met for target in targets], [False, False, False])
        self.assertEqual(len(problems(targets, promised=True, control=False)), 3)
        self.assertEqual(problems(targets, promised=False, control=False), [])
        self.assertEqual(problems(targets, promised=False, control=True), [])

    def test_interrupts_are_judged_where_none_is_promised(self) -> None:
        ours = {name: judge.measured([turn(1.0, 0.5)]) for name in ("sleeps", "never")}
        targets = judge.judge(ours, {}, ["never"])
        self.assertEqual([target.name for target in targets], ["interrupts", "interruptions"])
        self.assertTrue(all("never" in target.of and not target.met for target in targets))

    def test_a_pass_is_judged_by_the_least_switch_alone(self) -> None:
        linux = {
            name: judge.measured([turn(1.0, switch=Switch(30.0, it)) for it in alone])
            for name, alone in {"slow": [20.0], "fast": [2.0, 6.0, 8.0]}.items()
        }
        for passed, met in ((3.0, True), (3.1, False)):
            ours = {"n": judge.measured([turn(1.0, switch=Switch(passed, None))])}
            [target] = [it for it in judge.judge(ours, linux, []) if it.name == "switch"]
            self.assertEqual((target.met, target.value), (met, passed / 6.0))
        none = judge.judge({"n": judge.measured([turn(1.0)])}, linux, [])
        self.assertEqual([it.name for it in none], ["time"])


class Turns(unittest.TestCase):
    def test_who_has_other_records_is_out_and_the_result_shows_it(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            where = place(Path(name))
            entries = [
                turns.Entry(StandIn(it, where)) for it in ("nileos", "linux", "linux-direct")
            ]
            entries[1].guest.said = turn(1.0, switch=Switch(9.0, 6.0))
            entries[2].guest.said = turn(1.0, checksum="cd")
            turns.run(entries, Task(10, 100), 2)
            self.assertEqual([len(entry.turns) for entry in entries], [2, 2, 0])
            self.assertRegex(entries[2].failed or "", "checksum cd")
            self.assertEqual(list(Path(name).iterdir()), [])
            node, *linux = entries
            result = document([node], linux, Task(10, 100), TABLES, 2, True, False)
        said = text.text(result)
        self.assertRegex(said, r"Linux, direct +FAILED: 10 records with checksum cd")
        self.assertRegex(said, r"NileOS +1.00 s +1.00 1.00 +1.00 +0 +0 +unknown +0 +5 +0 MB")
        self.assertRegex(said, r"Linux +9.00 us +6.00 us\n")
        self.assertEqual(len(result["problems"]), 1)
        kept = {it.name: it.value for it in recorded(result)}
        self.assertEqual((kept["NileOS: sort"], kept["Linux: sort"]), (1.0, 1.0))
        self.assertNotIn("Linux, direct: sort", kept)
        html = page.whole_page(json.loads(json.dumps(result)), "<svg></svg>")
        self.assertIn("<svg></svg>", html)
        for outside in ("src=", "href=", "<link"):
            self.assertNotIn(outside, html)

    def test_a_machine_that_stands_still_is_started_once_more(self) -> None:
        still = guests.StoodStill("guest 1 did not end in 60 s: linux: sorting twice")
        for attempts, turned in (([still, turn(1.0)], 1), ([still, still, turn(1.0)], 0)):
            with tempfile.TemporaryDirectory() as name:
                entry = turns.Entry(Moody("linux", place(Path(name)), attempts))
                turns.run([entry], Task(10, 100), 1)
                self.assertEqual(list(Path(name).iterdir()), [])
                said = text.text(document([entry], [], Task(10, 100), TABLES, 1, True, False))
            self.assertEqual((len(entry.turns), entry.stood_still), (turned, 1))
            self.assertIn("stood still, and were started again: 1", said)
            self.assertEqual("sorting twice" in said, not turned)

    def test_a_machine_that_does_not_end_stands_still(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            where = place(Path(name))
            where.nile.write_text("#!/bin/sh\necho linux: sorting twice >&2\nexec sleep 60\n")
            where.nile.chmod(0o755)
            linux = guests.Linux("linux", where, Path("k"), Path("i"), "6")
            linux.crew.folder.mkdir()
            with mock.patch.object(guests, "TURN_SECONDS", 1):
                with self.assertRaisesRegex(guests.StoodStill, "in 1 s: linux: sorting twice"):
                    linux.turn(Task(10, 100))
            linux.end()
            self.assertEqual(linux.crew.members(), [])


class Interrupt(unittest.TestCase):
    def test_nothing_is_left_of_what_was_interrupted(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for part in ("release", "work", "linux/tree/boot", "linux/tree/lib/modules"):
                (folder / part).mkdir(parents=True)
            (folder / "linux/tree/boot/vmlinuz-6").write_bytes(b"")
            nile = folder / "release/nile"
            nile.write_text("#!/bin/sh\n[ $1 = up ] || exit 0\ntouch $0.ran\nexec sleep 60\n")
            nile.chmod(0o755)
            settings = {"CARGO_TARGET_DIR": name, "NILE_PROGRAMS": f"{name}/release"}
            settings |= {"NILE_PACKAGES": name, "NILE_GUEST": "/bin/true"}
            words = [sys.executable, str(HERE.parent), "linux"]
            words += ["--mebibytes", "8", "--runs", "1", "--cores", "2", "--quick"]
            environment = os.environ | settings | {"TMPDIR": str(folder / "work")}
            harness = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
            patience = time.monotonic() + 30
            while not (folder / "release/nile.ran").exists() and time.monotonic() < patience:
                time.sleep(0.02)
            harness.terminate()
            _, said = harness.communicate(timeout=30)
            self.assertEqual(harness.returncode, 130, said)
            self.assertEqual(list((folder / "work").iterdir()), [])
            mark = f"{folder}/work".encode()
            left = [it for pid in pids() for it in environment_of(pid) if mark in it]
            self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
