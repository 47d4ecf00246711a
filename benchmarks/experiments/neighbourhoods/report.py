"""The table of the neighbourhoods: accuracies, and the time of a step."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from benchmarks.engine.pages import Claim, commits
from benchmarks.engine.records import Record, frame
from benchmarks.engine.statistics import best_cells
from benchmarks.engine.tables import markdown, mean_and_deviation
from benchmarks.experiments.neighbourhoods.run import TASKS, Run
from benchmarks.readouts import in_order, label

CELL = ["task", "readout", "points"]


def summary(records: list[Record]) -> str:
    table = _chosen(records)
    shown = table.pivot_table(
        index=CELL[1:], columns="task", values="test", aggfunc=mean_and_deviation
    )[[task for task in TASKS if task in set(table["task"])]]
    shown["behind, at most"] = _behind(table).map("{:.1f}".format)
    seconds = _seconds(table)
    if "mean" in seconds:
        ratios = seconds / seconds["mean"].iloc[0]
        shown["step"] = ratios.map("{:.2f}x".format)
    shown = shown.loc[in_order(table["readout"])].rename_axis(columns=None)
    shown = shown.rename(index=label, level=0).rename_axis(["aggregation", "points"])
    return markdown(shown.reset_index())


def _behind(table: pd.DataFrame) -> pd.Series:
    """How far each aggregation is behind the best one, where it is furthest."""
    means = 100 * table.pivot_table(index=CELL[1:], columns="task", values="test")
    return (means.max() - means).max(axis=1)


def _seconds(table: pd.DataFrame) -> pd.Series:
    return table.groupby(CELL[1:])["step_seconds"].median()


def message(found: Mapping[str, list[Record]]) -> str:
    """How far heads are behind the best of each task, and the nearest rival."""
    table = _chosen(found.get("neighbourhoods", []))
    behind, seconds = _behind(table).sort_values(), _seconds(table)
    is_ours = behind.index.get_level_values(0).str.startswith("gswe")
    if is_ours.all() or not is_ours.any():
        return ""
    ours, rival = behind.index[is_ours][0], behind.index[~is_ours][0]
    return (
        f"**{label(ours[0])}: at most {behind[ours]:.1f} points behind the best "
        f"aggregation, whichever of the {table['task'].nunique()} questions is asked. "
        f"The nearest of the others, {label(rival[0])}, is up to {behind[rival]:.1f} "
        f"points behind, in {seconds[rival] / seconds[ours]:.1f} times the time.**"
    )


def _chosen(records: list[Record]) -> pd.DataFrame:
    """With the learning rate that is best on validation nodes."""
    return best_cells(frame(records, Run), CELL, ["learning_rate"])


def part(config: str, records: list[Record], folder: Path) -> str:
    return (
        f"{len(records)} runs, commit {commits(records)}. Test accuracy in %, mean ± "
        f"standard deviation over graphs; how far behind the best, in points, where it "
        f"is furthest; processor time of a training step relative "
        f"to the mean's.\n\n{summary(records)}"
    )


def claims(records: Mapping[str, list[Record]]) -> list[Claim]:
    return []
