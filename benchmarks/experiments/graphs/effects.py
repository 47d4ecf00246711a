"""Heads against their rivals, paired by fold or seed."""

from pathlib import Path

import pandas as pd

from benchmarks.engine.statistics import Difference, difference, holm
from benchmarks.engine.tables import markdown, save
from benchmarks.experiments.graphs.cells import (
    goodness,
    sign,
    wide,
)
from benchmarks.experiments.graphs.data import FOLDS, TU
from benchmarks.readouts import label

LEVEL = 0.05
PLAIN = ("mean", "sum", "max")
BEST_PLAIN, BEST_RIVAL = "best of mean, sum, max", "best rival"
RIVALS = ("mean", "max", BEST_PLAIN, BEST_RIVAL)


def overlap(dataset: str) -> float:
    """Seeds of a fixed split share their training part as a matter of course: what they
    say is about this split. Folds are to speak of other graphs."""
    return 1 / (FOLDS - 1) if dataset in TU else 0.0


def rival(table: pd.DataFrame, dataset: str, which: str) -> str:
    """The one that is meant; the best is the one on validation parts."""
    if which in PLAIN:
        return which
    means = table[table["dataset"] == dataset].groupby("readout")["good"].mean()
    is_plain = means.index.isin(PLAIN)
    is_head = means.index.str.startswith("gswe_heads")
    return means[is_plain if which == BEST_PLAIN else ~is_head].idxmax()


def effects(table: pd.DataFrame, readout: str) -> pd.DataFrame:
    """A row per data set and rival; positive is better, ``p`` is Holm's over the data
    sets."""
    rows = []
    for which in RIVALS:
        found: list[tuple[str, str, Difference, float]] = []
        for dataset in wide(table, "test", goodness).index:
            runs = table[table["dataset"] == dataset]
            scores = sign(dataset) * runs.pivot(
                index="seed", columns="readout", values="test"
            )
            other = rival(table, dataset, which)
            if not {readout, other} <= set(scores):
                continue
            pair = scores[readout], scores[other]
            effect = difference(*pair, scale=1, overlap=overlap(dataset))
            if effect and effect.pairs > 2:
                perfect = float(sign(dataset) > 0)
                error = perfect - scores[other].mean()
                found.append((dataset, other, effect, error))
        for row, p in zip(found, holm([row[2].p for row in found]), strict=True):
            dataset, other, effect, error = row
            rows.append((which, dataset, other, effect.mean, effect.half, p, error))
    columns = ["which", "dataset", "rival", "mean", "half", "p", "error"]
    return pd.DataFrame(rows, columns=columns)


def counts(found: pd.DataFrame, which: str) -> tuple[list[str], list[str]]:
    """The data sets on which it is significantly ahead, and behind."""
    found = found[(found["which"] == which) & (found["p"] < LEVEL)]
    ahead = found["mean"] > 0
    return found["dataset"][ahead].tolist(), found["dataset"][~ahead].tolist()


def effects_table(found: pd.DataFrame) -> str:
    cells = {}
    for row in found.itertuples():
        scale, digits = (1, 3) if sign(row.dataset) < 0 else (100, 1)
        text = f"{scale * row.mean:+.{digits}f} ± {scale * row.half:.{digits}f}"
        if row.which not in PLAIN:
            text += f" ({label(row.rival)})"
        cells[row.dataset, row.which] = f"**{text}**" if row.p < LEVEL else text
    shown = pd.Series(cells).unstack()
    shown = shown.loc[found["dataset"].unique(), list(RIVALS)]
    shown.columns = [f"against {which}" for which in RIVALS]
    return markdown(shown.rename_axis("data set").reset_index())


def draw(found: dict[str, pd.DataFrame], path: Path) -> None:
    """Less error than mean and max have, in per cent, so that all units are one."""
    from matplotlib.figure import Figure

    datasets = list(dict.fromkeys(d for f in found.values() for d in f["dataset"]))
    figure = Figure(figsize=(7.5, 1.5 + 0.42 * len(datasets)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True, sharex=True)
    styles = zip(("#0072B2", "#E69F00"), ("o", "s"), (-0.13, 0.13), strict=True)
    for (readout, effect), (colour, marker, shift) in zip(
        found.items(), styles, strict=False
    ):
        for panel, which in zip(panels, PLAIN[::2], strict=True):
            part = effect[effect["which"] == which]
            is_clear = part["p"] < LEVEL
            for rows, face in ((part[is_clear], colour), (part[~is_clear], "white")):
                panel.errorbar(
                    100 * rows["mean"] / rows["error"].abs(),
                    [datasets.index(d) + shift for d in rows["dataset"]],
                    xerr=100 * rows["half"] / rows["error"].abs(),
                    fmt=marker,
                    color=colour,
                    markerfacecolor=face,
                    capsize=2,
                    label=label(readout) if face == colour else None,
                )
    for panel, which in zip(panels, PLAIN[::2], strict=True):
        panel.axvline(0, color="0.5", linewidth=0.8)
        panel.set_title(f"against {which} pooling", fontsize=9)
        panel.set_xlabel("less error, % (right is better)", fontsize=8)
        panel.tick_params(labelsize=8)
    panels[0].set_yticks(range(len(datasets)), datasets)
    panels[0].set_ylim(len(datasets) - 0.5, -0.5)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=8)
    save(figure, path)
