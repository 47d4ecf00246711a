"""The table of the neighbourhoods: accuracies, and the time of a step."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from benchmarks.engine.pages import origin
from benchmarks.engine.records import Record, frame
from benchmarks.engine.statistics import best_cells
from benchmarks.engine.tables import cells, markdown
from benchmarks.experiments.neighbourhoods.run import Run
from benchmarks.readouts import by_readout, label

CELL = ["readout", "points"]


def _chosen(records: list[Record]) -> pd.DataFrame:
    """With the learning rate that is best on validation nodes."""
    table = best_cells(frame(records, Run), ["task", *CELL], ["learning_rate"])
    return by_readout(table)


def _behind(table: pd.DataFrame) -> pd.Series:
    """How far each aggregation is behind the best one, where it is furthest."""
    means = 100 * table.pivot_table(index=CELL, columns="task", values="test")
    return (means.max() - means).max(axis=1)


def _seconds(table: pd.DataFrame) -> pd.Series:
    return table.groupby(CELL)["step_seconds"].median()


def summary(records: list[Record]) -> str:
    table = _chosen(records)
    shown = cells(table, CELL, "task", "test")
    shown["behind, at most"] = _behind(table).map("{:.1f}".format)
    seconds = _seconds(table)
    if "mean" in seconds:
        ratios = seconds / seconds["mean"].iloc[0]
        shown["step"] = ratios.map("{:.2f}x".format)
    return markdown(shown.rename(index=label, level=0), ["aggregation", "points"])


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


def part(config: str, records: list[Record], folder: Path) -> str:
    return (
        f"{origin(frame(records, Run))}. Test accuracy in %, mean ± standard deviation "
        f"over graphs; how far behind the best, in points, where it is furthest; "
        f"processor time of a training step relative to the mean's.\n\n"
        f"{summary(records)}"
    )
