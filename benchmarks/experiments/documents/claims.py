"""Learning with labels on all documents at once: does it do what the paper says?"""

from collections.abc import Mapping

import pandas as pd

from benchmarks.engine.pages import NOT_WORSE, Claim
from benchmarks.engine.records import Record
from benchmarks.engine.tables import difference, markdown, mean_and_deviation
from benchmarks.experiments.documents.cells import (
    FOLD,
    SIZE,
    best,
    by_references,
    cells,
    is_level,
    on_test_parts,
    per_fold,
)
from benchmarks.experiments.documents.logistic import LABEL as LOGISTIC

DATASETS = ("twitter", "bbcsport", "classic", "amazon")
GSWE = "GSWE, linear"


def load(records: Mapping[str, list[Record]]) -> dict[str, pd.DataFrame]:
    """The cells of each data set's largest protocol, in the folds that all of them
    have, for data sets with such folds."""
    found = {}
    for name in DATASETS:
        groups = on_test_parts(records.get(name, []))
        if groups:
            table = cells(groups[0][1])
            num_cells = table.groupby(["series", *SIZE]).ngroups
            complete = table.groupby(FOLD)["series"].transform("size") == num_cells
            if complete.any():
                found[name] = table[complete]
    return found


def overview(datasets: Mapping[str, pd.DataFrame]) -> str:
    """The best cell of every readout, a column for each data set."""
    if not datasets:
        return ""
    extent = "; ".join(
        f"{name}: {table['epochs'].iloc[0]} epochs, {len(table.groupby(FOLD))} folds"
        for name, table in datasets.items()
    )
    return (
        f"Accuracy in % of the last epoch ({extent}), mean ± standard deviation over "
        f"folds, of the best cell of each readout, with its references x elements. The "
        f"cells are chosen by these very accuracies, which favours readouts with more "
        f"of them.\n\n{markdown(peaks(datasets))}"
    )


def peaks(datasets: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    def cell(table: pd.DataFrame, series: str) -> str:
        runs = best(table, series)
        if runs.empty:
            return ""
        text, first = mean_and_deviation(runs["accuracy"]), runs.iloc[0]
        if is_level(first["readout"]):
            return text
        return f"{text} ({first['references']}x{first['points']})"

    both = pd.concat(datasets.values())
    series = both.sort_values(["place", "series"], kind="stable")["series"].unique()
    columns = {
        name: [cell(table, one) for one in series] for name, table in datasets.items()
    }
    return pd.DataFrame({"readout": series, **columns})


def claims(datasets: Mapping[str, pd.DataFrame]) -> list[Claim]:
    found = []
    for name, table in datasets.items():

        def add(text, ours, theirs, margin=0.0, name=name):
            found.append(Claim(text, name, difference(ours, theirs), margin))

        gswe, pma = _shared(table, GSWE, "PMA"), _shared(table, "PMA", GSWE)
        top, mean = per_fold(best(table, GSWE)), per_fold(best(table, "mean"))
        add("GSWE is not worse than PMA, mean of all sizes", gswe, pma, NOT_WORSE)
        add("GSWE has a higher peak than PMA", top, per_fold(best(table, "PMA")))
        one = by_references(table)
        one = one[one["references"] == 1]
        one_gswe, one_repset = (
            per_fold(one[one["series"] == s]) for s in (GSWE, "RepSet")
        )
        add("GSWE beats RepSet with one hidden set", one_gswe, one_repset)
        repset = per_fold(best(table, "RepSet"))
        add("GSWE beats RepSet, best of each", top, repset)
        add("GSWE, mean of all sizes, beats mean pooling", gswe, mean)
        counts = f"{GSWE}, word counts"
        weighted, plain = _shared(table, counts, GSWE), _shared(table, GSWE, counts)
        add("word counts help GSWE, mean of all sizes", weighted, plain)
        logistic = per_fold(best(table, LOGISTIC))
        add("GSWE, best, beats logistic regression on means", top, logistic)
    return found


def _shared(table: pd.DataFrame, series: str, other: str) -> pd.Series:
    """The mean over the sizes that another series has, too, per fold."""
    own = table[table["series"] == series]
    sizes = table.loc[table["series"] == other, SIZE].drop_duplicates()
    return per_fold(own.merge(sizes, on=SIZE))
