"""What was tried before the test: a table that experiments share."""

import pandas as pd

from benchmarks.engine.config import RunSettings, fill_added
from benchmarks.engine.pages import commits
from benchmarks.engine.records import Record, frame
from benchmarks.engine.tables import markdown, mean_and_deviation

NOT_TRIED = ("fold", "seed", "dataset")


def trials(
    records: list[Record], run_type: type[RunSettings], also: tuple[str, ...] = ()
) -> list[str]:
    """A table of validation accuracies, and other metrics, if they are there, for each
    group of comparable trials."""
    tried = [r for r in records if r["config"]["evaluate"] == "validation"]
    return [_table(group, run_type, also) for group in _comparable(tried)]


def _comparable(records: list[Record]) -> list[list[Record]]:
    """Apart, what data sets with no setting in common were tried for."""
    groups: list[tuple[set[str], set[tuple]]] = []
    for record in records:
        config = record["config"]
        setting = tuple((k, v) for k, v in config.items() if k not in NOT_TRIED)
        group = ({config["dataset"]}, {setting})
        for other in [g for g in groups if g[0] & group[0] or g[1] & group[1]]:
            groups.remove(other)
            group = (other[0] | group[0], other[1] | group[1])
        groups.append(group)
    return [[r for r in records if r["config"]["dataset"] in g[0]] for g in groups]


def _table(
    records: list[Record], run_type: type[RunSettings], also: tuple[str, ...]
) -> str:
    """By all settings that differ, a column for each data set."""
    table = fill_added(frame(records), run_type)
    fields = [f for f in run_type.__dataclass_fields__ if f not in NOT_TRIED]
    table[fields] = table.reindex(columns=fields).astype(object).fillna("-")
    differing = [name for name in fields if table[name].nunique() > 1]
    rows = table.groupby([*(differing or fields[:1]), "dataset"], sort=False)
    wide = rows["accuracy"].agg(mean_and_deviation).unstack(sort=False)
    means = rows["accuracy"].mean().unstack(sort=False).mean(axis=1, skipna=False)
    wide["mean"] = [f"{100 * m:.1f}" if m == m else "" for m in means]
    for metric in (name for name in also if name in table):
        values = rows[metric].mean().unstack(sort=False).mean(axis=1)
        wide[metric] = values.map("{:.2f}".format, na_action="ignore")
    wide = wide.rename_axis(columns=None).reset_index()
    wide[differing] = wide[differing].astype(str)
    fixed = ", ".join(
        f"{k}={table[k].iloc[0]}"
        for k in fields
        if k not in differing and table[k].iloc[0] != "-"
    )
    return (
        f"{len(records)} trials on training data only: a part of it is held out, and "
        f"no test part is looked at. Accuracy on the held-out part in %, mean ± "
        f"standard deviation over folds and seeds ({fixed}; commit "
        f"{commits(records)}).\n\n{markdown(pd.DataFrame(wide))}"
    )
