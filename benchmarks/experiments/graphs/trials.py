"""Settings that were tried on validation parts of graphs, and what each changes."""

import pandas as pd

from benchmarks.engine.pages import commits
from benchmarks.engine.records import Record
from benchmarks.engine.statistics import difference
from benchmarks.engine.tables import markdown
from benchmarks.experiments.graphs.cells import largest_protocols, score, title
from benchmarks.experiments.graphs.data import METRICS

#: What a row of the table is.
SETTINGS = ["readout", "slicer", "points", "dropout", "extremes"]
SETTINGS += ["epochs", "log_degrees"]


def trials(records: list[Record]) -> str:
    """A row for each setting, and a row for each change of one setting alone."""
    table = largest_protocols(records, SETTINGS)
    counts = table.groupby("dataset")[SETTINGS[1:]].nunique().max()
    varied = ["readout", *counts[counts > 1].index]
    table = table.drop_duplicates(["dataset", *varied, "seed"])
    table[varied] = table[varied].astype(str)
    datasets = [name for name in METRICS if name in set(table["dataset"])]
    texts = {
        key: score(key[0], runs["valid"])
        for key, runs in table.groupby(["dataset", *varied], sort=False)
    }
    shown = pd.Series(texts).unstack(0)[datasets].rename(columns=title)
    seeds = ", ".join(map(str, sorted(table["seed"].unique())))
    return "\n\n".join(
        [
            f"{len(records)} trials, commit {commits(records)}. Scores of the best "
            f"epoch on validation parts, mean ± standard deviation over seeds or folds "
            f"{seeds}, which no result is made of; no test part was looked at.",
            markdown(shown.rename_axis(varied).reset_index()),
            *_changes(table, varied, datasets),
        ]
    )


def _changes(table: pd.DataFrame, varied: list[str], datasets: list[str]) -> list[str]:
    """Trials paired with those that differ from them in one setting."""
    table = table.assign(family=table["readout"].str.replace(r"\d", "", regex=True))
    rows = {}
    for setting in varied:
        rest = ["seed", *(s for s in varied if s != setting), "family"]
        for (family, dataset), runs in table.groupby(["family", "dataset"]):
            scores = runs.pivot(index=rest, columns=setting, values="good")
            values = sorted(scores, key=lambda v: (len(v), v))
            for value in values[1:]:
                found = difference(scores[value], scores[values[0]])
                if found and found.pairs > 2:
                    change = f"{setting} {value}, not {values[0]}"
                    rows.setdefault((family, change), {})[dataset] = str(found)
    if not rows:
        return []
    shown = pd.DataFrame(rows).T.reindex(columns=datasets)
    return [
        "What a single setting changes, in points (RMSE in hundredths): the mean over "
        "trials that differ in nothing else ± half of its 95 % interval (trials better "
        "/ equal / worse):",
        markdown(shown.rename_axis(["readout", "change"]).reset_index()),
    ]
