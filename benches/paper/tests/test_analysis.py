"""The statistics, against published results."""

import random
import sys
import unittest
from pathlib import Path

import pandas
from scipy import stats
from statsmodels.datasets import longley

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from paper import analysis  # noqa: E402

# D. Montgomery, Design and Analysis of Experiments (the paper's reference [21]), example 5.1: the
# life of batteries by the material of their plates, at three temperatures, four of each.
MATERIALS = {
    1: {15: (130, 155, 74, 180), 70: (34, 40, 80, 75), 125: (20, 70, 82, 58)},
    2: {15: (150, 188, 159, 126), 70: (136, 122, 106, 115), 125: (25, 70, 58, 45)},
    3: {15: (138, 110, 168, 160), 70: (174, 120, 150, 139), 125: (96, 104, 82, 60)},
}


def batteries() -> pandas.DataFrame:
    rows = [
        {"material": material, "temperature": temperature, "response": life}
        for material, temperatures in MATERIALS.items()
        for temperature, lives in temperatures.items()
        for life in lives
    ]
    return pandas.DataFrame(rows)


def observations(noise: float, times: float = 1.0, kind: str = "product") -> list[dict]:
    """An experiment of a full design, in which one environment takes `times` as long as the other,
    and nothing else has an effect."""
    chance = random.Random(7)
    made = []
    for environment, factor in (("a", 1.0), ("b", times)):
        for megabytes in (64.0, 128.0, 256.0):
            for reducers in (1, 2, 4):
                for block in range(3):
                    error = chance.gauss(0, noise)
                    seconds = factor * 2.718281828**error if kind == "product" else factor + error
                    levels = {"environment": environment, "megabytes": megabytes}
                    made.append(
                        {**levels, "reducers": reducers, "block": block, "seconds": seconds}
                    )
    return made


class Variance(unittest.TestCase):
    def test_the_published_table_is_found(self) -> None:
        found = analysis.anova(batteries(), ["material", "temperature"])
        published = [
            ("material", 2, 10683.72, 5341.86, 7.91, 0.0020),
            ("temperature", 2, 39118.72, 19559.36, 28.97, 0.0000),
            ("material × temperature", 4, 9613.78, 2403.44, 3.56, 0.0186),
            ("residual", 27, 18230.75, 675.21, None, None),
        ]
        for row, (effect, df, squares, mean, f, p) in zip(found["effects"], published, strict=True):
            self.assertEqual((row["effect"], row["df"]), (effect, df))
            self.assertAlmostEqual(row["sum_of_squares"], squares, places=2)
            self.assertAlmostEqual(row["mean_square"], mean, places=2)
            if f is None:
                self.assertIsNone(row["f"])
            else:
                self.assertAlmostEqual(row["f"], f, places=2)
                self.assertAlmostEqual(row["p"], p, places=4)
        self.assertAlmostEqual(found["r_squared"], 0.7652, places=4)
        self.assertAlmostEqual(found["adjusted_r_squared"], 0.6956, places=4)

    def test_shares_are_of_the_mean_squares(self) -> None:
        found = analysis.anova(batteries(), ["material", "temperature"])
        shares = [row["share"] for row in found["effects"]]
        self.assertAlmostEqual(sum(shares), 1)
        mean_squares = 5341.86 + 19559.36 + 2403.44 + 675.21
        self.assertAlmostEqual(shares[1], 19559.36 / mean_squares, places=5)

    def test_where_nothing_has_an_effect_none_is_found(self) -> None:
        found = analysis.analyse(observations(0.1))
        for scale in found["scales"].values():
            self.assertFalse(any(row["is_significant"] for row in scale["effects"]))

    def test_the_one_effect_that_there_is_is_found(self) -> None:
        found = analysis.analyse(observations(0.1, times=1.5))
        effects = found["scales"][found["scale"]]["effects"]
        self.assertEqual([it["effect"] for it in effects if it["is_significant"]], ["environment"])

    def test_blocks_take_what_the_machine_does_in_the_course_of_time(self) -> None:
        drifting = observations(0.1, times=1.2)
        for it in drifting:
            it["seconds"] *= 1 + it["block"]
        effects = analysis.analyse(drifting)["scales"]["logarithm"]["effects"]
        found = [it["effect"] for it in effects if it["is_significant"]]
        self.assertEqual(found, ["block", "environment"])

    def test_a_factor_with_one_level_is_none(self) -> None:
        some = [it for it in observations(0.1) if it["reducers"] == 2]
        effects = analysis.analyse(some)["scales"]["seconds"]["effects"]
        self.assertFalse(any("reducers" in it["effect"] for it in effects))


class Normality(unittest.TestCase):
    # S. Shapiro and M. Wilk, Biometrika 52 (1965): the weights of eleven men.
    WEIGHTS = (148, 154, 158, 160, 161, 162, 166, 170, 182, 195, 236)

    def test_the_published_weights_are_not_normal(self) -> None:
        found = analysis.normality(self.WEIGHTS)
        self.assertAlmostEqual(found["shapiro_wilk"]["w"], 0.79, places=2)
        self.assertAlmostEqual(found["shapiro_wilk"]["p"], 0.0067, places=4)
        self.assertFalse(found["is_normal"])

    def test_anderson_and_darling_s_statistic_is_as_they_define_it(self) -> None:
        values = sorted(self.WEIGHTS)
        mean, n = sum(values) / len(values), len(values)
        deviation = (sum((it - mean) ** 2 for it in values) / (n - 1)) ** 0.5
        z = [(it - mean) / deviation for it in values]
        terms = (
            (2 * i + 1) * (stats.norm.logcdf(z[i]) + stats.norm.logsf(z[n - 1 - i]))
            for i in range(n)
        )
        expected = -n - sum(terms) / n
        found = analysis.normality(self.WEIGHTS)["anderson_darling"]
        self.assertAlmostEqual(found["a_squared"], expected, places=9)
        self.assertLess(found["p"], 0.02)

    def test_logarithms_count_where_noise_is_a_factor(self) -> None:
        found = analysis.analyse(observations(0.8, times=20))
        self.assertFalse(found["scales"]["seconds"]["normality"]["is_normal"])
        self.assertEqual(found["scale"], "logarithm")

    def test_seconds_count_where_their_residuals_are_normal(self) -> None:
        found = analysis.analyse(observations(0.05, times=1.5, kind="sum"))
        self.assertTrue(found["scales"]["seconds"]["normality"]["is_normal"])
        self.assertEqual(found["scale"], "seconds")

    def test_the_q_q_plot_has_every_residual(self) -> None:
        points = analysis.normality(self.WEIGHTS)["q_q"]
        self.assertEqual([y for _, y in points], sorted(self.WEIGHTS))
        self.assertAlmostEqual(points[5][0], 0)


class Regression(unittest.TestCase):
    def test_the_certified_r_squared_is_found(self) -> None:
        # The data set Longley of the NIST's Statistical Reference Datasets.
        frame = longley.load_pandas().data
        terms = " + ".join(frame.columns.drop("TOTEMP"))
        frame = frame.rename(columns={"TOTEMP": "response"})
        found = analysis.regress(frame, f"response ~ {terms}")
        self.assertAlmostEqual(found["r_squared"], 0.995479004577296, places=9)
        unemployed = next(it for it in found["coefficients"] if it["term"] == "UNEMP")
        self.assertAlmostEqual(unemployed["coefficient"], -2.02022980381683, places=6)
        self.assertAlmostEqual(unemployed["standard_error"], 0.488399681651699, places=6)

    def test_a_law_is_followed_beyond_the_levels(self) -> None:
        law = observations(0.001, times=3)
        for it in law:
            it["seconds"] *= it["megabytes"] ** 1.1 / it["reducers"] ** 0.5
        regression = analysis.analyse(law)["scales"]["logarithm"]["regression"]
        self.assertGreater(regression["r_squared"], 0.98)
        told = regression["extrapolated"]
        self.assertEqual(told["megabytes"], 256)
        self.assertTrue(all(error < 0.15 for error in told["mean_error"].values()), told)

    def test_of_two_sizes_none_is_foretold(self) -> None:
        some = [it for it in observations(0.1) if it["megabytes"] > 64]
        regression = analysis.analyse(some)["scales"]["seconds"]["regression"]
        self.assertIsNone(regression["extrapolated"])


if __name__ == "__main__":
    unittest.main()
