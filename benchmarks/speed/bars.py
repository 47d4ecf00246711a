"""The bars that the package has to reach, as data, judged from results on file."""

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import geometric_mean as mean
from typing import NamedTuple

import pandas as pd

from benchmarks.speed.contenders import LABELS
from benchmarks.speed.shapes import GROWTH, SKEWED, Shape
from benchmarks.speed.timing import MODES


class Bar(NamedTuple):
    """``over`` in multiples of ``under`` (or as it is), over the cases of a part (or
    in one of them), and what is demanded of it forward and in training."""

    part: str
    over: str
    under: str | None
    how: Callable[[pd.Series], float]
    sense: str
    forward: float | None
    training: float | None
    case: str | None = None


OURS, EXTREMES = "segment_quantile", "gswe_identity_extremes"

BARS = (
    Bar("shapes", "quantile", OURS, mean, ">=", 35, 14),
    Bar("shapes", "padded", OURS, mean, ">=", 9, 4.5),
    Bar("shapes", "padded", OURS, min, ">=", 4, 2.5),
    Bar("shapes", "transformer", OURS, mean, ">=", 30, 30),
    Bar("shapes", OURS, "numpy_sort", mean, "<=", 1.1, 2.5),
    Bar("shapes", "gswe_heads1", "sort", max, "<=", 1, 1),
    Bar("shapes", "gswe_identity_heads1", "gswe_identity", max, "<=", 1.25, 1.25),
    Bar("shapes", EXTREMES, "gswe_identity_heads1", max, "<=", 1.1, 1.1),
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


def verdicts(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each bar and mode: the demand, what came out, and if it is met."""
    return pd.DataFrame(
        _verdict(frame, bar, mode, limit)
        for bar in BARS
        for mode, limit in zip(MODES, (bar.forward, bar.training), strict=True)
        if limit is not None
    )


def _verdict(frame: pd.DataFrame, bar: Bar, mode: str, limit: float) -> dict[str, str]:
    chosen = frame[(frame["part"] == bar.part) & (frame["mode"] == mode)]
    if bar.case is not None:
        chosen = chosen[chosen["case"] == bar.case]
    values = chosen.pivot(index="contender", columns="case", values="value")
    over, under = values.reindex([bar.over]), values.reindex([bar.under])
    ratios = (over.iloc[0] / (under.iloc[0] if bar.under else 1.0)).dropna()
    measured, reached = "-", "not measured"
    if len(ratios):
        value = bar.how(ratios)
        is_met = value >= limit if bar.sense == ">=" else value <= limit
        measured, reached = f"{value:.3g}", "yes" if is_met else "**no**"
    return {
        "part": bar.part if bar.case is None else f"{bar.part}, {bar.case}",
        "bar": " / ".join(LABELS[name] for name in (bar.over, bar.under) if name),
        "of the cases": "mean" if bar.how is mean else "worst",
        "mode": mode,
        "demanded": f"{bar.sense} {limit:.3g}",
        "measured": measured,
        "reached": reached,
    }


def steps(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows for the growth of the time at each step of a series, beside the growth of
    the sort's own work. From end to end, what a call costs at least would hide it."""
    chosen = frame[frame["part"] == "growth"]
    seconds = chosen.pivot(index="case", columns=["contender", "mode"], values="value")
    seconds = seconds.reindex({str(s): s for series in GROWTH.values() for s in series})
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
