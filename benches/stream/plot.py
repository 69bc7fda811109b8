"""`python -m stream.plot RESULT FILE`: for which part of the time each contestant was at most how
stale."""

import json
import sys
from pathlib import Path

from harness.drawing import new, save


def main(result: str, file: str) -> None:
    document = json.loads(Path(result).read_text())
    ran = [one for one in document["contestants"] if "curve" in one]
    if not ran:
        return
    figure, axes = new(None, figsize=(8, 4))
    for one in ran:
        curve = [seconds * 1e3 for seconds in one["curve"]]
        parts = [100 * number / len(curve) for number in range(len(curve))]
        line = "-" if one["name"].startswith("nileos") else "--"
        axes.plot(curve, parts, line, label=one["title"])
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlabel("staleness, milliseconds")
    axes.set_ylabel("% of the time at most so stale")
    axes.legend(frameon=False)
    save(figure, Path(file))


if __name__ == "__main__":
    main(*sys.argv[1:])
