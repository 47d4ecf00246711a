"""The table of settings that were tried on validation parts of graphs."""

import pandas as pd

from benchmarks.engine.pages import commits
from benchmarks.engine.records import Record
from benchmarks.engine.tables import markdown
from benchmarks.experiments.graphs.cells import (
    average_ranks,
    goodness,
    largest_protocols,
    score,
    title,
)
from benchmarks.experiments.graphs.data import METRICS

#: What a row of the table is.
SETTINGS = ["readout", "slicer", "points", "dropout", "extremes"]


def trials(records: list[Record]) -> str:
    """A row for each setting, on the seeds that all settings of a data set have."""
    table = largest_protocols(records, SETTINGS)
    varied = ["readout", *(s for s in SETTINGS[1:] if table[s].nunique() > 1)]
    table[varied] = table[varied].astype(str)
    kept = pd.concat([_common(runs, varied) for _, runs in table.groupby("dataset")])
    seeds = ", ".join(map(str, sorted(kept["seed"].unique())))
    origin = (
        f"{len(records)} trials, commit {commits(records)}; seeds or folds {seeds}, "
        f"which no result is made of. Scores of the best epoch on validation parts, "
        f"mean ± standard deviation; the test parts of these folds were not looked at. "
        f"Ranks are over the data sets that have all settings."
    )
    if kept.empty:
        return f"{origin}\n\nNo data set has been run with several settings yet."
    texts, values = {}, {}
    for (*setting, dataset), runs in kept.groupby([*varied, "dataset"], sort=False):
        texts[(*setting, dataset)] = score(dataset, runs["valid"])
        values[(*setting, dataset)] = goodness(dataset, runs["valid"])
    datasets = [name for name in METRICS if name in set(kept["dataset"])]
    shown = pd.Series(texts).unstack()[datasets].rename(columns=title)
    ranks = average_ranks(pd.Series(values).unstack().dropna(axis=1).T)
    shown["average rank"] = ranks.map("{:.2f}".format)
    shown = shown.loc[ranks.sort_values(kind="stable").index]
    return f"{origin}\n\n{markdown(shown.rename_axis(varied).reset_index())}"


def _common(runs: pd.DataFrame, settings: list[str]) -> pd.DataFrame:
    """The seeds that all settings of the data set have, if these are several."""
    runs = runs.drop_duplicates([*settings, "seed"])
    num_settings = len(runs.drop_duplicates(settings))
    counts = runs.groupby("seed")["id"].transform("size")
    return runs[(counts == num_settings) & (num_settings > 1)]
