"""What was tried before the test: a table that experiments share."""

from collections.abc import Callable

import pandas as pd

from benchmarks.engine.config import RunSettings
from benchmarks.engine.pages import origin
from benchmarks.engine.records import Record, frame
from benchmarks.engine.tables import markdown, mean_and_deviation

NOT_TRIED = ("fold", "seed", "dataset", "evaluate")
OFF = ("all", "False")  # what is not worth naming


def accuracy(runs: pd.DataFrame) -> str:
    return mean_and_deviation(runs["accuracy"])


def trials(
    records: list[Record],
    run_type: type[RunSettings],
    score: Callable[[pd.DataFrame], str] = accuracy,
    what: str = "Accuracy in %",
) -> str:
    """Scores on held-out training data: a column per data set or, if there is but one,
    per readout, and a row for each combination of the settings that were varied."""
    table = frame(records, run_type, "validation")
    if table.empty:
        return ""
    column = "dataset" if table["dataset"].nunique() > 1 else "readout"
    names = [f for f in run_type.__dataclass_fields__ if f not in (*NOT_TRIED, column)]
    settings = table[names].map(_text)
    # What only differs between data sets was not tried.
    counts = settings.groupby(table[column]).nunique().max()
    varied = [name for name in names if counts[name] > 1 or name == "epochs"]
    groups = table.groupby([*(settings[name] for name in varied), column], sort=False)
    found = pd.Series({key: score(runs) for key, runs in groups})
    fixed = ", ".join(
        f"{name}={settings[name].iloc[0]}"
        for name in names
        if settings[name].nunique() == 1 and settings[name].iloc[0] not in OFF
    )
    wide = markdown(found.unstack(sort=False), [n.replace("_", " ") for n in varied])
    return (
        f"{origin(table, 'trials')}. {what} on held-out training data, mean ± standard "
        f"deviation over folds and seeds ({fixed}). No test part was looked at.\n\n"
        f"{wide}"
    )


def _text(value: object) -> str:
    if pd.isna(value):
        return "all"
    return f"{value:g}" if isinstance(value, float) else str(value)
