"""The bars that the package has to reach, as data, judged from results on file."""

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import geometric_mean as mean
from typing import NamedTuple

import pandas as pd

from benchmarks.speed.shapes import GROWTH, SKEWED, Shape
from benchmarks.speed.timing import MODES


class Bar(NamedTuple):
    """``over`` in multiples of ``under``, over the cases of a part."""

    part: str
    over: str
    #: ``None`` where the value itself is judged.
    under: str | None
    how: Callable[[pd.Series], float]
    sense: str
    #: ``None`` where nothing is demanded.
    forward: float | None
    training: float | None
    #: Only this one.
    case: str | None = None


OURS = "segment_quantile"

BARS = (
    Bar("shapes", "quantile", OURS, mean, ">=", 35, 14),
    Bar("shapes", "padded", OURS, mean, ">=", 9, 4.5),
    Bar("shapes", "padded", OURS, min, ">=", 4, 2.5),
    Bar("shapes", "transformer", OURS, mean, ">=", 30, 30),
    Bar("shapes", OURS, "numpy_sort", mean, "<=", 1.1, 2.5),
    Bar("shapes", "gswe_heads1", "sort", max, "<=", 1, 1),
    Bar("shapes", "gswe_identity_heads1", "gswe_identity", max, "<=", 1.25, 1.25),
    Bar(
        "shapes", "gswe_identity_extremes", "gswe_identity_heads1", max, "<=", 1.1, 1.1
    ),
    Bar("shapes", "segment_quantile_weights", OURS, max, "<=", 2, 2),
    Bar("shapes", "segment_quantile_torch", "padded", max, "<=", 1, 1),
    Bar("steps", OURS, None, max, "<=", None, 1.15, "nodes: 400 to 1600"),
    Bar("small", OURS, "mean", max, "<=", 3, 2.5),
    Bar("small", "gswe_heads1", "mean", max, "<=", 3, 2.5),
    Bar("neighbourhoods", "gswe_heads1", "mean", max, "<=", 2.5, 2.5),
    Bar("neighbourhoods", "gswe_projected", "mean", max, "<=", 2.5, 2.5),
    Bar("gin", "gswe_heads1", "mean", max, "<=", None, 1.1),
    Bar("documents", "bucketed", "padded_batches", max, "<=", None, 15 / 39),
    Bar("memory", OURS, None, max, "<=", None, 6, str(SKEWED)),
)


def ratios(frame: pd.DataFrame, mode: str, bar: Bar) -> pd.Series:
    """For each case of the bar's part; empty where it is not measured."""
    chosen = frame[(frame["part"] == bar.part) & (frame["mode"] == mode)]
    if bar.case is not None:
        chosen = chosen[chosen["case"] == bar.case]
    seconds = chosen.pivot(index="contender", columns="case", values="value")
    over, under = seconds.reindex([bar.over]), seconds.reindex([bar.under])
    return (over.iloc[0] / (under.iloc[0] if bar.under else 1.0)).dropna()


def verdicts(frame: pd.DataFrame, labels: dict[str, str]) -> pd.DataFrame:
    """A row for each bar and mode: the demand, what came out, and if it is met."""
    rows = []
    for bar in BARS:
        for mode, limit in zip(MODES, (bar.forward, bar.training), strict=True):
            if limit is None:
                continue
            found = ratios(frame, mode, bar)
            value = bar.how(found) if len(found) else math.nan
            is_met = value >= limit if bar.sense == ">=" else value <= limit
            reached = "yes" if is_met else "**no**"
            names = [labels[name] for name in (bar.over, bar.under) if name]
            rows.append(
                {
                    "part": bar.part if bar.case is None else f"{bar.part}, {bar.case}",
                    "bar": " / ".join(names),
                    "of the cases": "mean" if bar.how is mean else "worst",
                    "mode": mode,
                    "demanded": f"{bar.sense} {limit:.3g}",
                    "measured": "-" if math.isnan(value) else f"{value:.3g}",
                    "reached": "not measured" if math.isnan(value) else reached,
                }
            )
    return pd.DataFrame(rows)


def steps(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows for the growth of the time at each step of a series, beside the growth of
    the sort's own work. From end to end, what a call costs at least would hide it."""
    chosen = frame[frame["part"] == "growth"]
    seconds = chosen.pivot(index="case", columns=["contender", "mode"], values="value")
    shapes = {str(shape) for series in GROWTH.values() for shape in series}
    seconds = seconds.reindex(sorted(shapes))
    rows = []
    for axis, shapes in GROWTH.items():
        for before, after in pairwise(shapes):
            case = f"{axis}: {getattr(before, axis)} to {getattr(after, axis)}"
            work = _work(after) / _work(before)
            for (contender, mode), times in seconds.items():
                value = times[str(after)] / times[str(before)] / work
                rows.append(("steps", case, contender, mode, value))
    return pd.DataFrame(rows, columns=["part", "case", "contender", "mode", "value"])


def _work(shape: Shape) -> float:
    return shape.graphs * shape.nodes * shape.slices * math.log2(shape.nodes)
