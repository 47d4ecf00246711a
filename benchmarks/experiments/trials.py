"""What was tried before the test: a table that experiments share."""

import pandas as pd

from benchmarks.engine.config import RunSettings
from benchmarks.engine.pages import commits
from benchmarks.engine.records import Record, frame
from benchmarks.engine.tables import markdown, mean_and_deviation

NOT_TRIED = ("fold", "seed", "dataset")


def trials(
    records: list[Record], run_type: type[RunSettings], share: str | None = None
) -> str:
    """Accuracies on held-out training data, a row for each way in which a trial differs
    from most others; ``share`` is a metric to show in parentheses."""
    tried = [r for r in records if r["config"]["evaluate"] == "validation"]
    if not tried:
        return ""
    table = frame(tried, run_type)
    fields = [f for f in run_type.__dataclass_fields__ if f not in NOT_TRIED]
    table[fields] = table[fields].astype(object)
    by_readout = table["dataset"].nunique() == 1
    columns = "readout" if by_readout else "dataset"
    fields = [name for name in fields if name != columns]
    usual = {
        key: {name: _most(runs, name) for name in fields}
        for key, runs in table.groupby("readout" if by_readout else lambda _: "")
    }
    table["trial"] = [
        _differences(run, usual[run["readout"] if by_readout else ""], fields)
        for _, run in table.iterrows()
    ]

    def cell(runs: pd.DataFrame) -> str:
        text = mean_and_deviation(runs["accuracy"])
        known = share in runs and runs[share].notna().any()
        return f"{text} ({runs[share].median():.2f})" if known else text

    rows = {key: cell(runs) for key, runs in table.groupby(["trial", columns])}
    wide = pd.Series(rows).unstack().rename_axis("trial")
    wide = wide.loc[table["trial"].unique(), table[columns].unique()]
    common = ", ".join(
        f"{name}={values.pop()}"
        for name in fields
        if len(values := {str(own[name]) for own in usual.values()}) == 1
        and values.isdisjoint({"None", "nan", "False"})
    )
    return (
        f"{len(tried)} trials on training data only: a part of it is held out, and no "
        f"test part is looked at. Accuracy on the held-out part in %, mean ± standard "
        f"deviation over folds and seeds, by what differs from most trials ({common}; "
        f"commit {commits(tried)}).\n\n"
        f"{markdown(wide.rename_axis(columns=None).reset_index())}"
    )


def _most(runs: pd.DataFrame, name: str) -> object:
    trained = runs[runs["epochs"] > 0]
    values = (trained if len(trained) else runs)[name]
    return values.mode(dropna=False).iloc[0]


def _differences(run: pd.Series, usual: dict, fields: list[str]) -> str:
    words, alike = [], "as most"
    if run["epochs"] == 0:
        words, alike, fields = ["untrained, or no network"], "", ["points"]
    for name in fields:
        is_empty = pd.isna(run[name])
        if run[name] != usual[name] and not (is_empty and pd.isna(usual[name])):
            words.append(f"{name}={'all' if is_empty else run[name]}")
    return ", ".join(words) or alike
