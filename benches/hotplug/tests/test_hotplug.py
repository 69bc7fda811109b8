"""What the harness promises, with reports that no machine has made."""

import csv
import json
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
sys.path.insert(0, str(HERE.parent))

from harness import record  # noqa: E402
from harness.processes import CommandFailed  # noqa: E402
from harness.target import problems  # noqa: E402
from hotplug import judge, systems  # noqa: E402
from hotplug.document import document, recorded, spread, text  # noqa: E402
from hotplug.main import beside, report  # noqa: E402
from hotplug.systems import Linux, NileOs, Times, linux, nileos  # noqa: E402

WHAT = (
    "create",
    "destroy",
    "create again",
    "destroy by force",
    "core more",
    "core less",
    "memory more",
    "memory less",
)
LINUX = ("core less", "core more", "memory less", "memory more", "thread moved")


def ours(micros: int, rounds: int = 11) -> dict[str, Any]:
    """The report of a machine that booted in 100 ms, where each takes so long."""
    figures = {f"{what} {at}": micros for at in range(rounds) for what in WHAT}
    program = {"passed": True, "failures": [], "figures": figures}
    return {"boot_us": 100_000, "program": program}


def theirs(micros: float, refused: int = 0) -> dict[str, Any]:
    return {"hotplug": {what: [micros] * 3 for what in LINUX} | {"refused": refused}}


class Turns(unittest.TestCase):
    def test_figures_are_put_in_the_order_of_their_rounds(self) -> None:
        said = ours(500)
        said["program"]["figures"] |= {"create 10": 10_000, "create 2": 2000, "core less 1": 700}
        times = nileos(said)
        self.assertEqual(times["create"], [0.5, 0.5, 2.0] + [0.5] * 7 + [10.0])
        self.assertEqual(times["core"], [1.0, 1.2] + [1.0] * 9)
        self.assertEqual(times["boot"], [100.0])
        self.assertEqual(set(times), {*WHAT, "core", "boot"})

    def test_what_failed_is_no_figure(self) -> None:
        said = ours(500)
        said["program"] |= {"passed": False, "failures": ["memory stays dirty"]}
        with self.assertRaisesRegex(CommandFailed, "stays dirty"):
            nileos(said)
        with self.assertRaisesRegex(CommandFailed, "3 memory blocks"):
            linux({"error": "3 memory blocks can be moved, of 4 wanted"})
        times, refused = linux(theirs(2500.0, refused=2))
        self.assertEqual((times["core"], refused), ([5.0] * 3, 2))

    def test_who_fails_is_out_and_others_go_on(self) -> None:
        class Told(systems.System):
            def turn(self, rounds: int) -> Times:
                if self.name == "bad":
                    raise CommandFailed("it stood still")
                return {"core": [float(rounds)]}

        with tempfile.TemporaryDirectory() as work:
            made = []
            for name in ("bad", "good"):
                Told.name = name
                told = Told(Path(work), Path("nile"))
                told.name = name
                made.append(told)
            systems.run(made, runs=2, rounds=3)
        self.assertEqual([it.failed for it in made], ["it stood still", None])
        self.assertEqual([it.times for it in made], [{}, {"core": [3.0, 3.0]}])


class Judging(unittest.TestCase):
    def targets(self, micros: int) -> dict[str, bool]:
        made = judge.judge(nileos(ours(micros)), linux(theirs(10_000.0))[0])
        return {it.name: it.met for it in made}

    def test_all_targets_are_met_or_missed(self) -> None:
        names = {"create", "core", *judge.MOST_MS}
        self.assertEqual(self.targets(900), dict.fromkeys(names, True))
        self.assertEqual(self.targets(60_000), dict.fromkeys(names, False))
        # Each has a limit of its own.
        some = {"destroy", "memory more", "memory less", "core"}
        self.assertEqual(self.targets(9000), {name: name not in some for name in names})

    def test_without_linux_a_core_is_not_judged(self) -> None:
        names = [it.name for it in judge.judge(nileos(ours(900)), {})]
        self.assertNotIn("core", names)
        self.assertEqual(len(names), 1 + len(judge.MOST_MS))
        self.assertEqual(judge.judge({}, {}), [])

    def test_a_control_has_to_miss_all_and_others_what_is_promised(self) -> None:
        slow = judge.judge(nileos(ours(60_000)), linux(theirs(10_000.0))[0])
        fast = judge.judge(nileos(ours(900)), linux(theirs(10_000.0))[0])
        self.assertEqual(len(problems(slow, True, False)), 6)
        self.assertEqual(problems(slow, False, False), [])
        self.assertEqual(problems(slow, False, True), [])
        self.assertEqual(problems(fast, True, False), [])
        self.assertEqual(len(problems(fast, False, True)), 6)

    def test_percentiles_are_values(self) -> None:
        values = [float(it) for it in range(100, 0, -1)]
        found = [judge.percentile(values, part) for part in (1, 50, 99, 100)]
        self.assertEqual(found, [1.0, 50.0, 99.0, 100.0])
        self.assertEqual(judge.percentile([7.0, 3.0], 50), 3.0)
        self.assertEqual(judge.percentile([7.0, 3.0], 51), 7.0)


class Documents(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.place = Path(self.folder.name)
        self.ours, self.linux = (it(self.place, Path("nile")) for it in (NileOs, Linux))
        self.ours.times = nileos(ours(900))
        self.linux.times, self.linux.refused = linux(theirs(10_000.0, refused=5))

    def test_all_is_told_and_written(self) -> None:
        result = document(self.ours, self.linux, 1, 11, True, False)
        self.assertEqual(result["problems"], [])
        said = text(json.loads(json.dumps(result)))
        self.assertIn("refused 5 idle memory blocks", said)
        self.assertEqual((said.count("met\n"), said.count("MISSED")), (6, 0))
        report(result, self.place / "new")
        self.assertIn("destroy by force", (self.place / "new/report.html").read_text())
        self.linux.failed = "it stood still"
        again = document(self.ours, self.linux, 1, 11, False, False)
        self.assertEqual(again["problems"], ["Linux: it stood still"])
        self.assertIn("no promise", text(again))

    def test_figures_and_spreads_are_recorded_in_files_of_one_folder(self) -> None:
        words = [str(self.place / "hotplug.csv"), "2026-01-02", "abc", "a machine", "busy"]
        result = document(self.ours, self.linux, 1, 11, True, False)
        record.append(words, "hotplug", recorded(result))
        record.append(beside(words, "spread.csv"), "hotplug", spread([self.ours, self.linux]))
        self.assertIsNone(beside(None, "spread.csv"))
        lines = {line[4]: line[5:] for line in self.read("hotplug.csv")}
        self.assertEqual(lines["NileOS: core, median"], ["1.8", "ms", "busy"])
        ratio = "core: taken and given, beside Linux's offline and online"
        self.assertEqual(lines[ratio], ["0.09", "x", "busy"])
        self.assertEqual(len(self.read("spread.csv")), (6 + 3) * 100)

    def read(self, name: str) -> list[list[str]]:
        return list(csv.reader((self.place / name).read_text().splitlines()))


if __name__ == "__main__":
    unittest.main()
