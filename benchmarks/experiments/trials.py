"""What was tried before the test: a table that experiments share."""

from collections.abc import Callable

import pandas as pd

from benchmarks.engine.config import RunSettings
from benchmarks.engine.pages import origin
from benchmarks.engine.records import Record, frame
from benchmarks.engine.statistics import most_frequent
from benchmarks.engine.tables import markdown, mean_and_deviation

NOT_TRIED = ("fold", "seed", "dataset", "evaluate")


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
    table = frame(records, run_type, "validation")
    if table.empty:
        return ""
    column = "dataset" if table["dataset"].nunique() > 1 else "readout"
    names = [f for f in run_type.__dataclass_fields__ if f not in (*NOT_TRIED, column)]
    settings, is_trained = table[names].map(_text), table["epochs"] > 0
    trained = settings[is_trained] if is_trained.any() else settings
    # If there is a column for each readout, then each has its own usual settings.
    group = table["readout"] if column == "readout" else pd.Series("", table.index)
    usual = trained.groupby(group).agg(most_frequent)
    # What only differs between data sets was not tried.
    tried = trained.groupby(table[column]).nunique().max() > 1

    def describe(place: int) -> str:
        shown, words = names, []
        if not is_trained[place]:
            shown, words = ["points"], ["untrained, or no network"]
        own = settings.loc[place]
        most = usual.loc[group[place]] if group[place] in usual.index else own
        words += [f"{n}={own[n]}" for n in shown if tried[n] and own[n] != most[n]]
        return ", ".join(words) or "as most"

    table["trial"] = table.index.map(describe)
    found = {key: score(runs) for key, runs in table.groupby(["trial", column])}
    wide = pd.Series(found).unstack()
    wide = wide.loc[table["trial"].unique(), table[column].unique()]
    is_common = (trained.nunique() == 1) | (tried & (usual.nunique() == 1))
    common = ", ".join(
        f"{name}={value}"
        for name, value in usual.iloc[0][is_common].items()
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
