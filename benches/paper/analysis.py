"""`python -m paper.analysis OBSERVATIONS ANALYSIS`: the statistics of the experiment, by
statsmodels and scipy, which the Python that runs this has.

Observations are a list of objects with the columns `environment`, `megabytes`, `reducers`, `block`
and `seconds`. All is done twice, with the seconds and with their logarithms: an effect that is a
factor and no difference is a sum only then, and so is noise that grows with what it disturbs."""

import json
import math
import sys
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy
import pandas
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.diagnostic import normal_ad

# The paper's level of significance.
ALPHA = 0.01

FACTORS = ("environment", "megabytes", "reducers")
# Each scale with the way there and the way back.
SCALES = {"seconds": (lambda it: it, lambda it: it), "logarithm": (numpy.log, numpy.exp)}


def analyse(observations: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The whole analysis. The scale that counts is that of the seconds, unless the residuals are
    normal with the logarithms alone, or less far from it."""
    scales = {}
    for name, (there, back) in SCALES.items():
        frame = pandas.DataFrame(observations)
        frame["response"] = there(frame["seconds"])
        # Time is about a power of the size: where it is a logarithm, the size is one, too.
        frame["size"] = there(frame["megabytes"])
        factors = [it for it in FACTORS if frame[it].nunique() > 1]
        model = anova(frame, factors, "block")
        regression = regress(frame, formula(factors))
        regression["extrapolated"] = extrapolate(frame, factors, back)
        scales[name] = {**model, "regression": regression}
    plain, logarithm = (scales[name]["normality"] for name in SCALES)
    is_better = logarithm["least_p"] > plain["least_p"]
    chosen = "logarithm" if not plain["is_normal"] and is_better else "seconds"
    return {"alpha": ALPHA, "scale": chosen, "scales": scales}


def anova(frame: Any, factors: Sequence[str], block: str | None = None) -> dict[str, Any]:
    """A factorial analysis of variance with all interactions; blocks are an effect of their own.
    The column `response` is what is explained."""
    whole = " * ".join(f"C({factor})" for factor in factors)
    blocks = f"C({block}) + " if block and frame[block].nunique() > 1 else ""
    model = ols(f"response ~ {blocks}{whole}", frame).fit()
    table = anova_lm(model, typ=2)
    squares = table["sum_sq"] / table["df"]
    rows = [
        {
            "effect": named(term),
            "df": int(row["df"]),
            "sum_of_squares": float(row["sum_sq"]),
            "mean_square": float(squares[term]),
            "share": float(squares[term] / squares.sum()),
            "f": number(row["F"]),
            "p": number(row["PR(>F)"]),
            "is_significant": bool(row["PR(>F)"] < ALPHA),
        }
        for term, row in table.iterrows()
    ]
    residuals = model.get_influence().resid_studentized_internal
    return {
        "effects": rows,
        "r_squared": float(model.rsquared),
        "adjusted_r_squared": float(model.rsquared_adj),
        "normality": normality(residuals),
        "residuals": [float(it) for it in residuals],
        "fitted": [float(it) for it in model.fittedvalues],
    }


def named(term: str) -> str:
    """An effect as people call it."""
    return (
        term.replace("C(", "").replace(")", "").replace(":", " × ").replace("Residual", "residual")
    )


def number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def normality(residuals: Any) -> dict[str, Any]:
    """Both tests of the paper, and the points of the normal Q-Q plot."""
    shapiro = stats.shapiro(residuals)
    anderson, anderson_p = normal_ad(numpy.asarray(residuals))
    expected, ordered = stats.probplot(residuals, fit=False)
    least = min(float(shapiro.pvalue), float(anderson_p))
    return {
        "shapiro_wilk": {"w": float(shapiro.statistic), "p": float(shapiro.pvalue)},
        "anderson_darling": {"a_squared": float(anderson), "p": float(anderson_p)},
        "least_p": least,
        "is_normal": least >= ALPHA,
        "q_q": [[float(x), float(y)] for x, y in zip(expected, ordered, strict=True)],
    }


def formula(factors: Sequence[str]) -> str:
    """The regression: size and reducers as numbers, the environment as which it is, and what two of
    them do together."""
    names = {"environment": "C(environment)", "megabytes": "size", "reducers": "reducers"}
    terms = [names[factor] for factor in factors]
    return "response ~ " + " + ".join([*terms, *(f"{a}:{b}" for a, b in combinations(terms, 2))])


def regress(frame: Any, formula: str) -> dict[str, Any]:
    """A linear regression by this formula."""
    model = ols(formula, frame).fit()
    rows = [
        {
            "term": term,
            "coefficient": float(model.params[term]),
            "standard_error": float(model.bse[term]),
            "t": float(model.tvalues[term]),
            "p": float(model.pvalues[term]),
        }
        for term in model.params.index
    ]
    return {
        "formula": formula,
        "coefficients": rows,
        "r_squared": float(model.rsquared),
        "adjusted_r_squared": float(model.rsquared_adj),
    }


def extrapolate(
    frame: Any, factors: Sequence[str], back: Callable[[Any], Any]
) -> dict[str, Any] | None:
    """What the regression over all sizes but the largest says of that one: how far it is from what
    was measured, by environment, as a share. With less than three sizes nothing can be said."""
    sizes = sorted(frame["megabytes"].unique())
    if len(sizes) < 3:
        return None
    known = frame["megabytes"] < sizes[-1]
    model = ols(formula(factors), frame[known]).fit()
    others = frame[~known]
    error = (back(model.predict(others)) / others["seconds"] - 1).abs()
    by_environment = error.groupby(others["environment"]).mean()
    return {
        "megabytes": float(sizes[-1]),
        "mean_error": {name: float(value) for name, value in by_environment.items()},
    }


def main(source: str, target: str) -> None:
    observations = json.loads(Path(source).read_text())
    Path(target).write_text(json.dumps(analyse(observations)))


if __name__ == "__main__":
    main(*sys.argv[1:])
