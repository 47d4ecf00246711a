"""What a comparison with so many folds could have found."""

import pandas as pd

from benchmarks.engine.statistics import difference
from benchmarks.engine.tables import markdown
from benchmarks.experiments.graphs.cells import overlap
from benchmarks.experiments.graphs.controls import NAMES
from benchmarks.experiments.graphs.data import score_sign
from benchmarks.readouts import label


def power(table: pd.DataFrame) -> list[str]:
    """Which difference to mean pooling each data set could have shown."""
    rows = {}
    for dataset, runs in table.groupby("dataset", sort=False):
        scores = runs.pivot(index="seed", columns="readout", values="test")
        scores *= 100 * score_sign(dataset)
        valid = runs.groupby("readout")["good"].mean()
        valid = valid.drop(["mean", *NAMES], errors="ignore")
        if len(scores) > 2 and "mean" in scores and len(valid):
            found = difference(
                scores[valid.idxmax()], scores["mean"], 1, overlap(dataset)
            )
            rows[dataset] = {
                "folds or seeds": str(len(scores)),
                "rival": label(valid.idxmax()),
                "ahead of mean": f"{found.mean:+.1f}",
                "detectable": f"{found.detectable():.1f}",
            }
    if not rows:
        return []
    return [
        "By how much the readout that is best on validation parts was ahead of mean "
        "pooling, and the difference that such a comparison would find four times out "
        "of five at the 5 % level, from how much differences vary between folds, in "
        "points (RMSE in hundredths). MUTAG and IMDB would need many more graphs than "
        "there are.",
        markdown(pd.DataFrame(rows).T, "data set"),
    ]
