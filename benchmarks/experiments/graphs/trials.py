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
SETTINGS = ["readout", "slicer", "points", "dropout"]


def trials(records: list[Record]) -> str:
    """A row for each setting, on the data sets and seeds that all settings have."""
    table = largest_protocols(records, SETTINGS)
    table[SETTINGS] = table[SETTINGS].astype(str)
    num_settings = len(table.drop_duplicates(SETTINGS))
    places = table.drop_duplicates([*SETTINGS, "dataset", "seed"])
    counts = places.groupby(["dataset", "seed"]).size()
    common = counts.index[counts == num_settings]
    seeds = sorted({seed for _, seed in common})
    origin = (
        f"{len(records)} trials, commit {commits(records)}; seeds or folds "
        f"{', '.join(map(str, seeds))}, which no result is made of. Scores of the "
        f"best epoch on validation parts, mean ± standard deviation; the test parts "
        f"of these folds were not looked at."
    )
    if not len(common):
        return f"{origin}\n\nNo data set has been run with every setting yet."
    kept = table.set_index(["dataset", "seed"]).loc[common].reset_index()
    texts, values = {}, {}
    for (*setting, dataset), runs in kept.groupby([*SETTINGS, "dataset"], sort=False):
        texts[(*setting, dataset)] = score(dataset, runs["valid"])
        values[(*setting, dataset)] = goodness(dataset, runs["valid"])
    datasets = [name for name in METRICS if name in set(kept["dataset"])]
    shown = pd.Series(texts).unstack()[datasets].rename(columns=title)
    ranks = average_ranks(pd.Series(values).unstack().T)
    shown["average rank"] = ranks.map("{:.2f}".format)
    shown = shown.loc[ranks.sort_values(kind="stable").index]
    return f"{origin}\n\n{markdown(shown.rename_axis(SETTINGS).reset_index())}"
