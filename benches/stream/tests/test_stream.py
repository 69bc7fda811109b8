"""What the harness promises, with a small stand-in for a contestant."""

import io
import json
import math
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
sys.path.insert(0, str(HERE.parent))

from harness import tuning  # noqa: E402
from harness.processes import Command, CommandFailed  # noqa: E402
from stream import judge, page, rounds, text  # noqa: E402
from stream.contestants import Contestant, Place, contestants  # noqa: E402
from stream.document import document, recorded  # noqa: E402
from stream.turn import Known, Publication, Stream, Watch, WrongRanks, compare  # noqa: E402

TABLES = tuning.read((HERE / "tuning.toml").read_text(), tuning.words())

# Takes edges, and says after each piece of them how many there were; vertex 9 is the first once it
# has come. In the end it has the ranks that it was given.
STAND_IN = """
import json, os, sys
count, first = 0, 1
while piece := os.read(0, 1 << 16):
    count += piece.count(b"\\n")
    first = 9 if b" 9\\n" in piece else first
    print(json.dumps({"events": count, "error": 0.001, "top": [first]}), flush=True)
print(json.dumps({"ranks": json.loads(sys.argv[1])}), flush=True)
"""


def edges(folder: Path) -> Known:
    """Ten edges that there are, 20 that come, and two that make the vertex 9 the first."""
    for name, count in (("base", 10), ("new", 20)):
        (folder / name).write_text("".join(f"{it} {it + 1}\n" for it in range(30, 30 + count)))
    (folder / "planted").write_text("1 9\n2 9\n")
    return Known(folder, 12, 10, 20, 2, 9, {9: 0.5, 1: 0.25})


class StandIn(Contestant):
    """A contestant that says what it is told to."""

    def __init__(self, place: Place, ranks: dict[int, float]) -> None:
        super().__init__("scipy", place)
        self.given = ranks

    def version(self) -> str:
        return "1"

    def begin(self) -> tuple[Any, Any]:
        words = [sys.executable, "-c", STAND_IN, json.dumps(self.given)]
        process = self.open("stand-in", Command(words, {}))
        return process.stdin, process.stdout

    def ranks(self, last: Any) -> dict[int, float]:
        return {int(vertex): rank for vertex, rank in last()["ranks"].items()}


class Turns(unittest.TestCase):
    def setUp(self) -> None:
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = Path(held.name)
        self.edges = edges(self.folder)
        tools: Any = None
        self.place = Place(self.folder, self.folder, tools, TABLES, 12, 32, 1e-3)

    def entry(self, ranks: dict[int, float]) -> rounds.Entry:
        return rounds.Entry(StandIn(self.place, ranks))

    def test_a_turn_measures_what_was_seen(self) -> None:
        entry = self.entry({9: 0.5, 1: 0.25})
        rounds.run([entry], self.edges, 200, 2)
        self.assertIsNone(entry.failed)
        self.assertEqual(len(entry.turns), 2)
        for turn in entry.turns:
            half, most, all_of_it = turn.staleness
            self.assertTrue(0 <= half <= most <= all_of_it < 5)
            self.assertTrue(0 <= turn.planted_seconds < 5)
            self.assertGreater(turn.ingest_seconds, 0)
            self.assertGreater(turn.bytes, 0)
            self.assertGreater(turn.publications, 1)
        self.assertFalse(entry.contestant.crew.folder.exists())

    def test_wrong_ranks_are_found(self) -> None:
        for ranks in ({9: 0.4, 1: 0.25}, {9: 0.5}, {1: 0.25, 9: 0.5}):
            entry = self.entry(ranks)
            rounds.run([entry], self.edges, 2000, 1)
            self.assertIsNotNone(entry.failed, ranks)
            self.assertEqual(entry.turns, [])

    def test_who_ends_early_has_failed(self) -> None:
        watch = Watch(io.BytesIO(b'{"events": 3, "error": 1.0, "top": []}\n'))
        watch.start()
        with self.assertRaises(CommandFailed):
            watch.until(3, 1e-3)
        self.assertEqual(watch.until(3, 1.0).first, None)

    def test_a_result_is_shown(self) -> None:
        entry, other = self.entry({9: 0.5, 1: 0.25}), self.entry({})
        rounds.run([entry, other], self.edges, 2000, 1)
        result = document([entry, other], self.edges, 2000, 1, False, False)
        self.assertIn("FAILED", text.text(result))
        self.assertIn("scipy in a loop", page.whole_page(result, ""))
        self.assertIn("scipy in a loop: staleness 99%", [it.name for it in recorded(result)])
        self.assertEqual(len(result["problems"]), 1)
        json.dumps(result)


class Staleness(unittest.TestCase):
    def stream(self, folder: str) -> Stream:
        stream = Stream(edges(Path(folder)), 100)
        stream.begun = 50.0
        return stream

    def test_it_is_how_long_the_first_edge_waits(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            stream = self.stream(folder)
        # Of 22 edges, one in 10 ms and two at once with the tenth, 14 are in at 50.2, and all at
        # 50.5.
        seen = [Publication(50.2, 24, 1e-3, 1), Publication(50.5, 32, 1e-3, 9)]
        looks = stream.staleness(seen, 50.6)
        self.assertAlmostEqual(len(looks), 600, delta=1)
        self.assertAlmostEqual(looks[199], 0.189, 3)
        self.assertAlmostEqual(looks[201], 0.071, 3)
        self.assertEqual(looks[550], 0.0)
        self.assertAlmostEqual(stream.planted_seconds(seen), 0.4)

    def test_nothing_is_stale_that_has_not_come(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            stream = self.stream(folder)
        self.assertEqual(max(stream.staleness([], 50.009)), 0.0)

    def test_who_is_never_first_is_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            stream = self.stream(folder)
        with self.assertRaises(WrongRanks):
            stream.planted_seconds([Publication(50.2, 20, 1e-3, 1)])


class Judging(unittest.TestCase):
    def measured(self, late: float, planted: float, ingest: float, size: float) -> judge.Measured:
        return judge.Measured(ingest, late / 2, late, late, planted, 5, size)

    def test_targets_are_those_that_are_promised(self) -> None:
        known = Known(Path(), 10, 80, 20, 0, 9, {})
        ours = {
            "nileos": self.measured(0.2, 0.1, 9.0, 2000),
            "nileos-kept": self.measured(0.2, 0.1, 2e6, 2000),
            "nileos-parts": self.measured(0.1, 0.2, 18.0, 3000),
        }
        ratios = judge.ratios(ours)
        self.assertEqual((ratios["ingest"], ratios["planted"], ratios["memory"]), (2, 2, 1.5))
        self.assertEqual(judge.ratios({"nileos": ours["nileos"]}), {})
        peers = {"a": self.measured(1.1, 3.0, 1.0, 1.0), "b": self.measured(2.0, 0.25, 1.0, 1.0)}
        targets = judge.judge(ours, peers, known)
        self.assertEqual([it.met for it in targets], [True] * 6, targets)
        self.assertEqual(judge.problems(targets, True, False), [])
        self.assertEqual(len(judge.problems(targets, False, True)), 5)
        late = judge.judge({"nileos": self.measured(math.nan, 0.2, 1.0, 9e9)}, peers, known)
        self.assertEqual([it.met for it in late], [False] * 4)
        self.assertEqual(len(judge.problems(late, True, False)), 4)
        self.assertEqual(judge.problems(late, False, False), [])

    def test_ranks_are_compared_within_their_bound(self) -> None:
        known = Known(Path(), 3, 1, 1, 1, 9, {9: 0.5, 1: 0.25})
        compare(known, {9: 0.5004, 1: 0.2496}, 1e-3)
        with self.assertRaises(WrongRanks):
            compare(known, {9: 0.5006, 1: 0.2494}, 1e-3)

    def test_everybody_is_set_up(self) -> None:
        tools: Any = None
        place = Place(Path("/nowhere"), Path("/nowhere"), tools, TABLES, 1, 1, 1e-3)
        names = [name for name in TABLES if name != "packages"]
        made = contestants(names, place)
        self.assertEqual([it.name for it in made], names)
        titles = [it.tuning["title"] for it in made]
        self.assertIn("NileOS, 2 parts", titles)


if __name__ == "__main__":
    unittest.main()
