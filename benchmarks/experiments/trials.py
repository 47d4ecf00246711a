"""What was tried before the test: a table that experiments share."""

from collections.abc import Callable

import pandas as pd

from benchmarks.engine.config import RunSettings
from benchmarks.engine.pages import origin
from benchmarks.engine.records import Record, frame
from benchmarks.engine.tables import markdown, mean_and_deviation

NOT_TRIED = ("fold", "seed", "dataset", "evaluate")


def of_part(records: list[Record], evaluate: str) -> list[Record]:
    """Those with results on that part of the data: ``test`` or ``validation``."""
    return [r for r in records if r["config"]["evaluate"] == evaluate]


def accuracy(runs: pd.DataFrame) -> str:
    return mean_and_deviation(runs["accuracy"])


def trials(
    records: list[Record],
    run_type: type[RunSettings],
    score: Callable[[pd.DataFrame], str] = accuracy,
    what: str = "Accuracy in %",
) -> str:
    """Scores on held-out training data: a column per data set or, if there is but one,
    per readout, and a row for each way in which a trial differs from most others."""
    table = frame(of_part(records, "validation"), run_type)
    if table.empty:
        return ""
    is_trained = table["epochs"] > 0
    column = "dataset" if table["dataset"].nunique() > 1 else "readout"
    # Of readouts, each has its own usual settings.
    alike = table["readout"] if column == "readout" else is_trained | True
    names = [name for name in run_type.__dataclass_fields__ if name not in NOT_TRIED]
    settings = table[[name for name in names if name != column]].map(_text)
    trained = settings.where(is_trained)
    usual = trained.groupby(alike).transform(_most)
    usual = usual.fillna(settings)
    tried = trained.groupby(table[column]).nunique().max() > 1

    def describe(place: int, names: list[str], start: list[str]) -> str:
        own, most = settings.loc[place], usual.loc[place]
        words = [f"{n}={own[n]}" for n in names if own[n] != most[n]]
        return ", ".join(start + words) or "as most"

    fields = tried.index[tried].tolist()
    table["trial"] = [
        describe(place, fields, [])
        if is_trained[place]
        else describe(place, ["points"], ["untrained, or no network"])
        for place in table.index
    ]
    found = {key: score(runs) for key, runs in table.groupby(["trial", column])}
    wide = pd.Series(found).unstack()
    wide = wide.loc[table["trial"].unique(), table[column].unique()]
    shared = usual.loc[:, (trained.nunique() == 1) | (tried & (usual.nunique() == 1))]
    common = ", ".join(
        f"{name}={value}"
        for name, value in shared.mode().iloc[0].items()
        if value not in ("all", "False")
    )
    return (
        f"{origin(table, 'trials')}. {what} on held-out training data, mean ± standard "
        f"deviation over folds and seeds, by what differs from most trials ({common}). "
        f"No test part was looked at.\n\n{markdown(wide, 'trial')}"
    )


def _text(value: object) -> str:
    if pd.isna(value):
        return "all"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _most(values: pd.Series) -> str | None:
    """The most frequent one, the first of equals."""
    counts = values.value_counts(sort=False)
    return counts.idxmax() if len(counts) else None
