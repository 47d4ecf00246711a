"""Which bars (``bars.csv``) are reached, from the results on file."""

import math
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean

import pandas as pd

from benchmarks.speed.contenders import LABELS
from benchmarks.speed.shapes import GROWTH, Shape
from benchmarks.speed.timing import MODES

OURS = "segment_quantile"
BARS = pd.read_csv(Path(__file__).with_name("bars.csv"), sep=";", comment="#")


def verdicts(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each bar and mode: the demand, what came out, and if it is met."""
    texts = BARS.columns.drop(list(MODES))
    bars = BARS.melt(texts, MODES, "mode", "limit", ignore_index=False)
    bars = bars.dropna(subset="limit").sort_index(kind="stable").fillna("")
    return pd.DataFrame(_verdict(frame, bar) for bar in bars.itertuples())


def _verdict(frame: pd.DataFrame, bar: tuple) -> dict[str, str]:
    chosen = frame[(frame["part"] == bar.part) & (frame["mode"] == bar.mode)]
    if bar.case:
        chosen = chosen[chosen["case"] == bar.case]
    values = chosen.pivot(index="case", columns="contender", values="value")
    names = [name for name in (bar.over, bar.under) if name]
    values = values.reindex(columns=names).dropna()
    ratios = values[bar.over] / (values[bar.under] if bar.under else 1)
    at_least = bar.sense == ">="
    how = {"mean": geometric_mean, "worst": min if at_least else max}
    measured, reached = "-", "not measured"
    if len(ratios):
        value = how[bar.of](ratios)
        is_met = value >= bar.limit if at_least else value <= bar.limit
        measured, reached = f"{value:.3g}", "yes" if is_met else "**no**"
    return {
        "part": f"{bar.part}, {bar.case}" if bar.case else bar.part,
        "bar": " / ".join(LABELS[name] for name in names),
        "of the cases": bar.of,
        "mode": bar.mode,
        "demanded": f"{bar.sense} {bar.limit:.3g}",
        "measured": measured,
        "reached": reached,
    }


def steps(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows for the growth of the time at each step, beside the growth of the sort's own
    work. From end to end, what a call costs at least would hide it."""
    chosen = frame[frame["part"] == "growth"]
    seconds = chosen.pivot(index="case", columns=["contender", "mode"], values="value")
    per_work = seconds.reindex(map(str, GROWTH)).div(list(map(_work, GROWTH)), axis=0)
    growth = (per_work / per_work.shift())[1:]
    growth.index = [f"nodes: {a.nodes} to {b.nodes}" for a, b in pairwise(GROWTH)]
    found = growth.rename_axis("case").stack([0, 1], future_stack=True)
    return found.rename("value").reset_index().assign(part="steps")


def _work(shape: Shape) -> float:
    return shape.nodes * math.log2(shape.nodes)
