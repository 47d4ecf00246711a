"""The table of the neighbourhoods: accuracies, and the time of a step."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from benchmarks.engine.pages import Claim, commits
from benchmarks.engine.records import Record, frame
from benchmarks.engine.tables import markdown, mean_and_deviation
from benchmarks.experiments.neighbourhoods.run import TASKS
from benchmarks.readouts import in_order, label

CELL = ["task", "readout", "points"]


def summary(records: list[Record]) -> str:
    table = _chosen(records)
    shown = table.pivot_table(
        index=CELL[1:], columns="task", values="test", aggfunc=mean_and_deviation
    )[[task for task in TASKS if task in set(table["task"])]]
    seconds = table.groupby(CELL[1:])["step_seconds"].median()
    if ("mean", 1) in seconds:
        shown["step"] = (seconds / seconds["mean", 1]).map("{:.2f}x".format)
    shown = shown.loc[in_order(table["readout"])].rename_axis(columns=None)
    shown = shown.rename(index=label, level=0).rename_axis(["aggregation", "points"])
    return markdown(shown.reset_index())


def _chosen(records: list[Record]) -> pd.DataFrame:
    """With the learning rate that is best on validation nodes."""
    table = frame(records)
    scores = table.groupby([*CELL, "learning_rate"])["valid"].transform("mean")
    best = scores.groupby([table[key] for key in CELL]).transform("max")
    return table[scores == best].drop_duplicates([*CELL, "seed"])


def part(config: str, records: list[Record], folder: Path) -> str:
    return (
        f"{len(records)} runs, commit {commits(records)}. Test accuracy in %, mean ± "
        f"standard deviation over graphs; processor time of a training step relative "
        f"to the mean's.\n\n{summary(records)}"
    )


def claims(records: Mapping[str, list[Record]]) -> list[Claim]:
    return []
