"""Records of learning without labels as a frame, and what was trained alike."""

import pandas as pd

from benchmarks.engine.records import Record, frame
from benchmarks.experiments.self_supervised.frozen import LABELS
from benchmarks.experiments.self_supervised.run import Run
from benchmarks.readouts import READOUTS, in_order, label

HOW = {"simclr": "SimCLR", "simsiam": "SimSiam"}
UNTRAINED = "untrained"
#: What differs between the cells of a table.
AXES = ("readout", "loss", "points", "start", "seed", "directions")
#: What a control has in common with what was trained.
DATA = ["dataset", "train_sets", "test_sets", "evaluate", "unit_scale", "draw_data"]
#: What was learned, in a fixed order.
PROTOCOL = [f for f in Run.__dataclass_fields__ if f not in AXES]
#: What not all runs have measured.
MEASURED = ("train_loss", "view_share", "embed_seconds", "logistic", "perceptron")


def cells(records: list[Record]) -> pd.DataFrame:
    """A row per run on test sets: ``series`` is its row in a table, ``how`` its
    column."""
    table = frame(records, Run)
    table = table.reindex(columns=dict.fromkeys([*table, *MEASURED]))
    table = table[table["evaluate"] == "test"]
    table["how"] = table["loss"].map(HOW).where(table["epochs"] > 0, UNTRAINED)
    starts = table.groupby("readout")["start"].transform("nunique") > 1
    table["series"] = [_series(run, starts[i]) for i, run in table.iterrows()]
    order = [*LABELS, *in_order(set(table["readout"]) - set(LABELS))]
    table["place"] = table["readout"].map(order.index)
    return table.sort_values(["place", "points", "directions"], kind="stable")


def _series(run: pd.Series, several_starts: bool) -> str:
    if run["readout"] in LABELS:
        size = f", {run['directions']:.0f} x {run['points']:.0f}"
        return LABELS[run["readout"]] + (size if run["readout"] == "sliced" else "")
    has_points = run["readout"] not in READOUTS or READOUTS[run["readout"]].has_points
    points = f", {run['points']:.0f}" if has_points else ""
    start = f", start {run['start']:g}" if several_starts else ""
    return label(run["readout"]) + points + start


def groups(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """What was trained alike, each with its controls; in the order of
    `_rank`. Controls alone, if nothing was trained."""
    is_control, found = table["epochs"] == 0, []
    of_loss = ["epochs", "learning_rate"]
    alike = [name for name in PROTOCOL if name not in of_loss]
    for _, runs in table[~is_control].groupby(alike, dropna=False):
        # Each loss may have its own, but one of each.
        several = runs.groupby("loss")[of_loss].nunique().max(axis=None) > 1
        for _, part in runs.groupby(of_loss) if several else [((), runs)]:
            own = part.iloc[0]
            fits = is_control & table["backbone"].isin([own["backbone"], "none"])
            for name in DATA:
                is_own = table[name] == own[name]
                fits &= table[name].isna() if pd.isna(own[name]) else is_own
            with_controls = table[fits | table.index.isin(part.index)]
            found.append((_settings(part[PROTOCOL]), with_controls))
    if not found and is_control.any():
        found = [
            (_settings(runs[DATA]), runs)
            for _, runs in table.groupby(DATA, dropna=False)
        ]
    return sorted(found, key=lambda item: _rank(item[1]))


def _rank(table: pd.DataFrame) -> tuple:
    """First what has controls, then the most kinds of cells."""
    kinds = table.groupby(["series", "how"]).ngroups
    return UNTRAINED not in set(table["how"]), -kinds, -len(table)


def _settings(runs: pd.DataFrame) -> str:
    """What is set; ``/`` between the values of the two losses."""
    values = {name: runs[name].dropna().unique() for name in runs}
    return ", ".join(
        f"{name}={'/'.join(f'{v:g}' if not isinstance(v, str) else v for v in found)}"
        for name, found in values.items()
        if any(isinstance(v, str) or v for v in found)
    )
