"""What the experiment promises: its design, what it reads from who is measured, its verdicts, and
its report; with small stand-ins for environments."""

import json
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from harness import page  # noqa: E402
from harness.data import Job, WrongOutput  # noqa: E402
from harness.processes import CommandFailed, Finished  # noqa: E402
from paper import (  # noqa: E402
    analysis,
    design,
    environments,
    figures,
    findings,
    history,
    report,
    result,
    show,
)
from paper.environments import Contestant, Moved  # noqa: E402
from paper.experiment import Experiment, Observation  # noqa: E402

HISTORY = (HERE / "terasort.jhist").read_text()


class Design(unittest.TestCase):
    JOBS = design.jobs([1, 4])

    def test_the_smaller_inputs_are_part_of_the_largest(self) -> None:
        self.assertEqual([job.name for job in self.JOBS], ["4M", "1M"])
        self.assertEqual(self.JOBS[1], Job("1M", 10485))

    def test_each_block_has_every_cell_once_in_an_order_of_its_own(self) -> None:
        blocks = design.blocks(["a", "b"], self.JOBS, [1, 2, 4], runs=3, seed=1)
        self.assertEqual([len(block) for block in blocks], [12] * 3)
        self.assertEqual(len({frozenset(block) for block in blocks}), 1)
        self.assertEqual(len({tuple(block) for block in blocks}), 3)

    def test_the_seed_gives_the_order(self) -> None:
        orders = [design.blocks(["a", "b"], self.JOBS, [1, 2], 2, seed) for seed in (1, 1, 2)]
        self.assertEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], orders[2])


class History(unittest.TestCase):
    """Of a job with two map and two reduce tasks over 671,088 records, as Hadoop 3.4.2 wrote it,
    but for events that are not about attempts."""

    def test_the_shuffle_is_read_from_it(self) -> None:
        found = history.shuffle(HISTORY)
        # Two bytes for each length besides the 100 of a record, and six at the end of each piece.
        self.assertEqual(found.bytes, 671_088 * 104 + 4 * 6)
        # By the time stamps of its attempts.
        self.assertEqual(found, history.Shuffle(69_793_176, 10.05, 14.17, 2, 2))

    def test_a_history_that_lacks_something_is_refused(self) -> None:
        lines = HISTORY.splitlines()
        for without, why in [
            ("MAP_ATTEMPT_FINISHED", "no finished map or reduce"),
            ("REDUCE_ATTEMPT_FINISHED", "no finished map or reduce"),
            ("REDUCE_ATTEMPT_STARTED", "start of a reduce task"),
        ]:
            text = "\n".join(it for it in lines if f'"{without}"' not in it)
            with self.assertRaisesRegex(history.NoHistory, why):
                history.shuffle(text)
        with self.assertRaisesRegex(history.NoHistory, "no counter"):
            history.shuffle(HISTORY.replace("REDUCE_SHUFFLE_BYTES", "SOMETHING"))
        with self.assertRaisesRegex(history.NoHistory, "no JSON"):
            history.shuffle(HISTORY.rstrip()[:-40])


class Environments(unittest.TestCase):
    def test_the_phase_is_found_in_the_line_of_figures(self) -> None:
        phases = [{"name": "mapping", "seconds": 2.0}, {"name": "reducing", "seconds": 0.5}]
        finished = Finished(3.0, "word\n" + json.dumps({"seconds": 3, "phases": phases}), "")
        self.assertEqual(environments.phase(finished, "reducing"), 0.5)
        with self.assertRaisesRegex(CommandFailed, "no phase over"):
            environments.phase(finished, "over")

    def test_levels_are_in_the_tuning_and_no_placeholder_is_left(self) -> None:
        settings = environments.settings(4, 2, Job("1M", 10485))
        self.assertEqual(
            (settings["nileos"]["workers"], settings["nileos"]["reducers"]), ("4", "2")
        )
        self.assertEqual(
            settings["reference"]["options"][:4], ["--threads", "4", "--reducers", "2"]
        )
        self.assertEqual(
            settings["hadoop-yarn"]["site"]["yarn.nodemanager.resource.cpu-vcores"], "5"
        )
        job = settings["hadoop-yarn"]["job"]
        self.assertEqual(job["mapreduce.job.reduces"], "2")
        self.assertEqual(job["mapreduce.input.fileinputformat.split.maxsize"], "262125")
        self.assertNotIn("{", json.dumps(settings).replace('{"', ""))


class StandIn(environments.Always):
    """A contestant whose sort is told what to take."""

    name = "nileos"
    form = None

    def __init__(self, seconds: float, fails: bool = False) -> None:
        self.seconds = seconds
        self.fails = fails
        self.crew = self
        self.folder = Path(tempfile.gettempdir())
        self.ends = 0
        self.tuning: dict[str, Any] = {}

    def install(self) -> None: ...

    def begin(self) -> None: ...

    def clear(self, job: Job) -> None: ...

    def version(self) -> str:
        return "1"

    def sort(self, job: Job) -> int:
        return job.records

    def run(self, records: int, limit: float) -> Finished:
        took = self.seconds * records / int(self.tuning["reducers"])
        return Finished(took + 1, json.dumps(took), "")

    def own_seconds(self, finished: Finished) -> float:
        return float(finished.out)

    def moved(self, finished: Finished) -> Moved:
        return Moved(float(finished.out) / 2)

    def output(self, job: Job) -> bool:
        return self.fails

    def end(self) -> None:
        self.ends += 1


class StandInData:
    jobs = design.jobs([1, 2])

    def check(self, fails: bool, form: object, job: Job) -> None:
        if fails:
            raise WrongOutput("it is out of order")


class Measuring(unittest.TestCase):
    def experiment(self, *peers: StandIn) -> Experiment:
        contestants = [Contestant(f"e{n}", f"E{n}", peer) for n, peer in enumerate(peers)]
        made = Experiment(contestants, StandInData(), 2)  # type: ignore[arg-type]
        made.install()
        names = [one.name for one in contestants]
        made.run(design.blocks(names, StandInData.jobs, [1, 2], runs=2, seed=3))
        return made

    def test_every_cell_is_observed_in_every_block(self) -> None:
        peers = (StandIn(1e-6), StandIn(3e-6))
        made = self.experiment(*peers)
        self.assertEqual(len(made.observations), 2 * 2 * 2 * 2)
        cells = result.cells(made.observations)
        self.assertEqual([len(it["runs"]) for it in cells], [2] * 8)
        slow = next(it for it in cells if (it["environment"], it["size"]) == ("e1", "2M"))
        self.assertAlmostEqual(slow["seconds"], 3e-6 * 20971)
        self.assertAlmostEqual(slow["reducing_rate"], 2 * slow["megabytes"] / slow["seconds"])
        self.assertEqual([peer.ends for peer in peers], [1, 1])

    def test_who_sorts_wrongly_is_out(self) -> None:
        made = self.experiment(StandIn(1e-6), StandIn(1e-6, fails=True))
        self.assertEqual(made.contestants["e1"].failed, "it is out of order")
        self.assertEqual({it.environment for it in made.observations}, {"e0"})


def observed(times: dict[str, float]) -> list[Observation]:
    """Three blocks of a full design in which each environment takes so many times as long, with a
    little that differs from run to run."""
    made = []
    for environment, factor in times.items():
        for job in design.jobs([64, 128, 256]):
            for reducers in (1, 2):
                for block in range(3):
                    wobble = 1 + 0.01 * ((len(made) * 7) % 5)
                    seconds = factor * job.bytes / reducers / 1e9 * wobble
                    moved = Moved(seconds / 2)
                    if environment == "hadoop":
                        moved = Moved(seconds / 2, job.bytes, seconds / 4)
                    levels = (environment, job.name, job.bytes, reducers, block, len(made))
                    made.append(Observation(*levels, seconds, seconds + 1, moved))
    return made


def document(times: dict[str, float], control: bool = False) -> dict[str, Any]:
    contestants = [Contestant(name, name.capitalize(), StandIn(1.0)) for name in times]
    for one in contestants:
        one.peer.tuning = {"what": "a stand-in & more", "options": ["-x"]}
    observations = observed(times)
    asked = {
        "sizes": ["64M", "128M", "256M"],
        "reducers": [1, 2],
        "mappers": 2,
        "runs": 3,
        "seed": 1,
        "control": control,
    }
    found = analysis.analyse(result.rows(observations))
    return result.document(contestants, observations, found, asked)


class Verdicts(unittest.TestCase):
    def test_the_speed_up_is_the_mean_of_all_cells(self) -> None:
        made = document({"nileos": 1.0, "linux": 0.9, "hadoop": 20.0})
        self.assertEqual(made["problems"], [])
        linux, hadoop = made["comparisons"]
        self.assertAlmostEqual(linux["mean"], 0.9, delta=0.03)
        self.assertAlmostEqual(hadoop["geometric_mean"], 20, delta=0.6)
        self.assertEqual(len(hadoop["cells"]), 6)

    def test_a_line_tells_what_the_size_takes_from_what_it_does_not(self) -> None:
        jobs = design.jobs([100, 200, 400])
        seconds = [12.0 + 25.0 * job.bytes / 1e9 for job in jobs]
        made = [
            Observation("e", job.name, job.bytes, 1, 0, 0, took, took, Moved(1.0))
            for job, took in zip(jobs, seconds, strict=True)
        ]
        (line,) = result.lines(made)
        self.assertAlmostEqual(line["seconds"], 12)
        self.assertAlmostEqual(line["seconds_per_gigabyte"], 25)
        self.assertAlmostEqual(line["standard_error"], 0)
        # By hand: residuals -1, 2, -1 at -1, 0, 1 around the mean, one degree of freedom.
        sizes, seconds = [10**9, 2 * 10**9, 3 * 10**9], [4.0, 10.0, 10.0]
        rough = [
            Observation("e", "", size, 1, 0, 0, took, took, Moved(1.0))
            for size, took in zip(sizes, seconds, strict=True)
        ]
        (line,) = result.lines(rough)
        self.assertAlmostEqual(line["seconds_per_gigabyte"], 3)
        self.assertAlmostEqual(line["standard_error"], 3**0.5)
        self.assertEqual(result.lines(made[:1]), [])

    def test_less_than_in_the_paper_is_a_problem(self) -> None:
        (problem,) = document({"nileos": 1.0, "hadoop": 2.0})["problems"]
        self.assertRegex(problem, r"missed: Hadoop takes \d\.\d+ × as long, and 2.34 ×")

    def test_how_the_gain_goes(self) -> None:
        gains = [
            {"megabytes": size, "reducers": count, "times": size * count}
            for size in (1, 2, 4)
            for count in (1, 2)
        ]
        self.assertEqual(result.grows(gains, "megabytes", "reducers"), [3, 3])
        self.assertEqual(result.grows(gains, "reducers", "megabytes", -1), [0, 2])

    def test_a_control_has_to_show_what_is_worse(self) -> None:
        names = ("nileos", "nileos-again", "nileos-hindered")
        seen = document(dict(zip(names, (1.0, 1.0, 5.0), strict=True)), control=True)
        self.assertEqual(seen["problems"], [])
        blind = document(dict(zip(names, (1.0, 1.0, 1.0), strict=True)), control=True)
        self.assertRegex(" ".join(blind["problems"]), "not 2.0 ×.*no effect of what hinders")
        (odd,) = document(dict(zip(names, (1.0, 2.0, 5.0), strict=True)), control=True)["problems"]
        self.assertRegex(odd, "as long as itself")

    def test_without_an_analysis_all_is_said_to_be_missing(self) -> None:
        made = result.document([], [], None, {"control": False})
        self.assertEqual(made["problems"], ["there are too few runs for an analysis"])


class Report(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.document = document({"nileos": 1.0, "linux": 0.9, "hadoop": 20.0})

    def draw(self) -> dict[str, str]:
        file = self.folder / "result.json"
        file.write_text(json.dumps(self.document))
        figures.main(str(file), str(self.folder))
        return {name: (self.folder / name).read_text() for name in report.FIGURES}

    def test_all_figures_are_well_formed_and_show_what_they_are_of(self) -> None:
        drawn = self.draw()
        for name, svg in drawn.items():
            root = xml.fromstring(page.drawing(svg))
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg", name)
            self.assertGreater(len(list(root.iter())), 50, name)
        self.assertIn("the paper's average: 2.34 ×", drawn["speed-up.svg"])
        self.assertIn("Hadoop, its shuffle alone", drawn["shuffle.svg"])
        self.assertIn("environment", drawn["mean-squares.svg"])

    def test_the_page_needs_no_other_file(self) -> None:
        drawn = {name: page.drawing(svg) for name, svg in self.draw().items()}
        made = report.whole_page(self.document, drawn)
        self.assertEqual(made.count("<svg"), len(report.FIGURES))
        self.assertIn("a stand-in &amp; more", made)
        for outside in ("src=", "<link", "<?xml", 'href="http'):
            self.assertNotIn(outside, made)

    def test_the_text_has_the_runs_the_tables_and_the_limits(self) -> None:
        text = show.text(self.document)
        self.assertRegex(text, r"Hadoop +256M +2 +2\.7\d\d s +2\.\d+ 2\.\d+ 2\.\d+ ")
        self.assertRegex(text, r"Hadoop takes, on average +2\.34 × +\d+\.\d+ ×")
        self.assertRegex(text, r"each further GB takes +- +Nileos .* Hadoop [\d.]+ ± [\d.]+ s")
        self.assertRegex(text, r"environment +2 .* significant")
        self.assertIn("What it cannot:", text)

    def test_what_is_kept_of_a_run_has_each_environment_beside_nileos(self) -> None:
        kept = {it.name: it.value for it in result.recorded(self.document)}
        self.assertGreater(kept["Hadoop / NileOS, average"], 10)
        self.assertIn("Nileos, a further GB", kept)
        self.assertIn("environment, p", kept)
        self.assertGreater(kept["R2"], 0.5)

    def test_findings_are_there_without_hadoop(self) -> None:
        rows = findings.rows(document({"nileos": 1.0, "linux": 0.9}))
        self.assertFalse(any("2.34 ×" in row[1] for row in rows))
        self.assertTrue(any(row[0] == "effect of size" for row in rows))


if __name__ == "__main__":
    unittest.main()
