"""What the harness promises, with figures that nobody has measured; and the namespaces, where they
can be made."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
sys.path.insert(0, str(HERE.parent))

from harness.processes import CommandFailed, Crew  # noqa: E402
from harness.target import problems  # noqa: E402
from net import judge, rows  # noqa: E402
from net.document import document, recorded, text  # noqa: E402
from net.rows import Entry, Turn  # noqa: E402
from net.spaces import LINUX, Spaces, address  # noqa: E402
from net.system import Cpu, pinned, used  # noqa: E402

GOOD = {
    "p99_ms": 10.0,
    "half_ms": 5.0,
    "half_us": 20.0,
    "mbit_s": 900.0,
    "per_second": 9000.0,
    "cpu_s_gb": 1.0,
    "per_mb": 100.0,
}


def measured(ours: float, names: dict[str, dict[str, Any]] = rows.ROWS) -> list[Entry]:
    """One turn of each contestant; figures of NileOS are so many times those of others."""
    made = []
    for row, contestants in names.items():
        for name, measure in contestants.items():
            times = ours if name.startswith("NileOS") else 1.0
            figures = {key: value * times for key, value in GOOD.items()}
            made.append(Entry(row, name, measure, [Turn(figures, Cpu(1.0, 2.0))]))
    return made


class Judging(unittest.TestCase):
    def test_every_row_has_a_target(self) -> None:
        entries = measured(1.0)
        for it in entries:
            if (it.row, it.name) == ("calls", "NileOS"):
                it.turns = [Turn({"per_mb": 1.0}, Cpu(1.0, 1.0))]
        targets = judge.judge(judge.measured(entries))
        self.assertEqual({it.name for it in targets}, set(rows.ROWS))
        self.assertTrue(all(it.met for it in targets), targets)
        self.assertEqual(problems(targets, True, False), [])

    def test_a_control_has_to_miss_them_all(self) -> None:
        targets = judge.judge(judge.measured(measured(1.0)))
        met = sum(it.met for it in targets)
        self.assertGreater(met, 5)
        self.assertEqual(len(problems(targets, False, True)), met)

    def test_what_is_slow_misses_where_it_is_promised(self) -> None:
        for times, rows_missed in (
            (3.0, {"restart", "replace", "rtt", "connections"}),
            (0.4, {"bulk"}),
        ):
            targets = judge.judge(judge.measured(measured(times)))
            missed = {it.name for it in targets if not it.met}
            self.assertTrue(rows_missed <= missed, missed)
            self.assertEqual(problems(targets, False, False), [])
            self.assertGreaterEqual(len(problems(targets, True, False)), len(rows_missed))

    def test_rules_that_cost_too_much_are_found(self) -> None:
        entries = [it for it in measured(1.0) if it.row == "filter"]
        slow = {**GOOD, "mbit_s": 0.8 * GOOD["mbit_s"]}
        entries[1].turns = [Turn(slow, Cpu(1.0, 1.0))]
        targets = judge.judge(judge.measured(entries))
        self.assertEqual([(it.name, it.met) for it in targets], [("filter", False)])

    def test_without_a_peer_there_is_no_ratio(self) -> None:
        entries = [it for it in measured(1.0) if it.name.startswith("NileOS")]
        targets = judge.judge(judge.measured(entries))
        self.assertNotIn("rtt", {it.name for it in targets})
        self.assertIn("restart", {it.name for it in targets})


class Turns(unittest.TestCase):
    def test_who_fails_is_out(self) -> None:
        begun = []

        def fails(_: Any) -> Any:
            begun.append("fails")
            raise CommandFailed("no answer")

        def works(_: Any) -> Any:
            begun.append("works")
            return GOOD, Cpu(1.0, 1.0)

        entries = [Entry("rtt", "NileOS", fails), Entry("rtt", "Linux polls", works)]
        task: Any = None
        rows.run(entries, task, 3)
        self.assertEqual(begun, ["fails", "works", "works", "works"])
        self.assertEqual((entries[0].failed, len(entries[1].turns)), ("no answer", 3))

    def test_a_result_is_shown_and_kept(self) -> None:
        entries = measured(1.0)
        entries[0].failed = "it is gone"
        result = document(entries, 1, False, False)
        self.assertIn("FAILED: it is gone", text(result))
        self.assertEqual(result["problems"], ["restart, NileOS: it is gone"])
        kept = recorded(result)
        self.assertNotIn("restart", kept)
        self.assertIn("NileOS: half us", [it.name for it in kept["rtt"]])
        json.dumps(result)

    def test_chosen_rows_alone_take_part(self) -> None:
        self.assertEqual({it.row for it in rows.entries(["rtt", "bulk"])}, {"rtt", "bulk"})


class Processes(unittest.TestCase):
    def test_time_of_a_cpu_is_counted(self) -> None:
        before = used(os.getpid())
        while used(os.getpid()) == before:
            sum(range(100_000))
        self.assertEqual(used(2**22 + 1), 0.0)
        self.assertEqual(pinned(100_000), [])

    @unittest.skipUnless(os.geteuid() == 0, "namespaces take root")
    def test_nothing_is_left_of_namespaces(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            crew = Crew("peers", Path(folder))
            try:
                spaces = Spaces(crew)
                for are_on in (False, True):
                    spaces.offloads(are_on)
                reach = f"import socket; socket.create_connection(('{address(LINUX)}', 9), 5)"
                words = spaces.peer.words(sys.executable, "-c", reach)
                done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
                self.assertIn("ConnectionRefusedError", done.stderr)
            finally:
                crew.end()
            self.assertEqual(crew.members(), [])
            for space in (spaces.peer, spaces.linux):
                space.keeper.wait()


if __name__ == "__main__":
    unittest.main()
