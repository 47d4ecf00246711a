"""The tables and the figure of the graph benchmark."""

from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean, mean, median

import pandas as pd

from benchmarks.engine.pages import Claim, commits
from benchmarks.engine.records import Record
from benchmarks.engine.tables import difference, markdown
from benchmarks.experiments.graphs.cells import (
    average_ranks,
    comparable,
    goodness,
    score,
    sign,
    tested,
    title,
    wide,
)
from benchmarks.experiments.graphs.ranks import critical_difference, draw_ranks
from benchmarks.experiments.graphs.trials import trials
from benchmarks.readouts import label

#: An epoch with GSWE, in multiples of one with mean pooling, at most.
MOST_EPOCH = 1.15
NOTHING = "No data set has been run with every readout yet."


def summary(records: list[Record]) -> str:
    """Scores and ranks, or the trials, for a terminal."""
    if not tested(records):
        return trials(records)
    table, _ = comparable(tested(records))
    if table.empty:
        return NOTHING
    return f"{_scores(table)}\n\n{_summary(table)}"


def part(name: str, records: list[Record], folder: Path) -> str:
    if records and not tested(records):
        return trials(records)
    records = tested(records)
    table, left_out = comparable(records)
    origin = f"{len(records)} runs, commit {commits(records)}."
    if left_out:
        origin += (
            f" {left_out} of them follow another protocol than most of their data set, "
            f"and are not shown."
        )
    if table.empty:
        return f"{origin}\n\n{NOTHING}"
    parts = [
        origin,
        "Test scores, mean ± standard deviation over folds or seeds; the best of a "
        "data set in bold:",
        _scores(table),
        "Average rank over the data sets (1 is best), the same by the score on "
        "validation parts and by the training loss of the last epoch, parameters "
        "(median over data sets), and processor seconds of a training epoch relative "
        "to mean pooling (geometric mean over data sets):",
        _summary(table),
        _bars(table),
        *_figure(name, table, folder),
        "Processor seconds of a training epoch (median):",
        _shown(wide(table, "epoch_seconds", lambda _, s: f"{median(s):.3g}")),
        "What was run:",
        _protocols(table),
    ]
    return "\n\n".join(text for text in parts if text)


def _figure(name: str, table: pd.DataFrame, folder: Path) -> list[str]:
    ranks, num_datasets = _ranks(table), table["dataset"].nunique()
    if num_datasets < 2 or len(ranks) < 2:
        return []
    least = critical_difference(len(ranks), num_datasets)
    draw_ranks(ranks.rename(label).to_dict(), least, folder / f"{name}.png")
    return [
        f"![Average ranks]({name}.png)",
        f"Readouts under one bar do not differ at the 5 % level (Nemenyi's test, "
        f"{num_datasets} data sets: their ranks are less than {least:.2f} apart).",
    ]


def _ranks(table: pd.DataFrame, metric: str = "test") -> pd.Series:
    """The average rank of each readout: 1 for the best score, or the least loss."""
    how = (lambda _, s: -mean(s)) if metric == "train_loss" else goodness
    return average_ranks(wide(table, metric, how))


def _shown(table: pd.DataFrame) -> str:
    return markdown(table.rename(columns=label).rename_axis("data set").reset_index())


def _scores(table: pd.DataFrame) -> str:
    texts, values = wide(table, "test", score), wide(table, "test", goodness)
    is_best = values.eq(values.max(axis=1), axis=0)
    return _shown(texts.where(~is_best, "**" + texts + "**").rename(title))


def _epoch_ratios(table: pd.DataFrame) -> pd.Series:
    """The time of an epoch in multiples of that with mean pooling, if that is there."""
    seconds = wide(table, "epoch_seconds", lambda _, values: median(values))
    if "mean" not in seconds:
        return pd.Series(dtype=float)
    return seconds.div(seconds["mean"], axis=0).agg(geometric_mean)


def _summary(table: pd.DataFrame) -> str:
    ranks, ratios = _ranks(table), _epoch_ratios(table)
    parameters = wide(table, "parameters", lambda _, v: v.iloc[0]).median()
    found = pd.DataFrame(
        {
            "average rank": ranks.map("{:.2f}".format),
            "validation": _ranks(table, "valid").map("{:.2f}".format),
            "training loss": _ranks(table, "train_loss").map("{:.2f}".format),
            "parameters": parameters.map("{:,.0f}".format),
            "epoch": ratios.map("{:.2f}x".format).reindex(ranks.index),
        }
    ).loc[ranks.sort_values(kind="stable").index]
    return markdown(found.rename(index=label).rename_axis("readout").reset_index())


def _bars(table: pd.DataFrame) -> str:
    """What the project demands of itself, for the GSWE that ranks best."""
    ranks = _ranks(table)
    is_ours = ranks.index.str.startswith("gswe")
    if not is_ours.any() or "mean" not in ranks:
        return ""
    best, rival = ranks[is_ours].idxmin(), ranks[~is_ours].idxmin()
    ratio = _epoch_ratios(table)[best]
    rows = [
        (
            f"average rank of {label(best)}",
            f"< {ranks[rival]:.2f} ({label(rival)})",
            f"{ranks[best]:.2f}",
            "yes" if ranks[best] < ranks[rival] else "**no**",
        ),
        (
            f"epoch of {label(best)}",
            f"<= {MOST_EPOCH}x of mean",
            f"{ratio:.2f}x",
            "yes" if ratio <= MOST_EPOCH else "**no**",
        ),
    ]
    return markdown(
        pd.DataFrame(rows, columns=["bar", "demanded", "measured", "reached"])
    )


def _protocols(table: pd.DataFrame) -> str:
    keys = ["epochs", "batch_size", "learning_rate", "hidden", "layers", "elements"]
    first = table.drop_duplicates("dataset").set_index("dataset")
    first = first.loc[wide(table, "test", score).index]
    seeds = table.groupby("dataset")["seed"].nunique()
    shown = first[keys].map(lambda value: "" if pd.isna(value) else f"{value:g}")
    shown.insert(0, "folds or seeds", seeds.reindex(shown.index).astype(str))
    shown.columns = [name.replace("_", " ") for name in shown.columns]
    return _shown(shown)


def claims(records: Mapping[str, list[Record]]) -> list[Claim]:
    """The GSWE that ranks best on validation parts against the plain readouts."""
    table, _ = comparable(tested(records.get("graphs", [])))
    if table.empty:
        return []
    ranks = _ranks(table, "valid")
    ours = ranks[ranks.index.str.startswith("gswe")]
    found = []
    for rival in [name for name in ("mean", "max") if name in ranks and len(ours)]:
        for dataset in wide(table, "test", score).index:
            runs = table[table["dataset"] == dataset]
            scores = runs.pivot(index="seed", columns="readout", values="test")
            text = f"{label(ours.idxmin())}, beats {label(rival)} pooling"
            unit = " (RMSE, hundredths, less is better)" if sign(dataset) < 0 else ""
            scores *= sign(dataset)
            effect = difference(scores[ours.idxmin()], scores[rival])
            found.append(Claim(text, dataset + unit, effect))
    return found
