"""Learning curves, a panel per task, and what follows from them."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from benchmarks.engine.pages import Claim, commits
from benchmarks.engine.records import Record, frame
from benchmarks.engine.tables import difference, markdown, mean_and_deviation, save
from benchmarks.experiments.when.data import TASKS
from benchmarks.experiments.when.run import PARAMETER_FREE
from benchmarks.readouts import READOUTS, in_order, label

CELL = ["task", "with_size", "train_sets", "readout"]
OURS = "gswe_heads4"
FRONT = (
    *("mean", "sum", "max", "quantile", "pma", "gswe_heads1", "gswe_heads4"),
    PARAMETER_FREE,
)
DIFFERENCES = {
    "shift": "where the set lies",
    "spread": "its spread",
    "tail": "its tails, at equal variance",
    "single": "a single element",
    "sum": "a total",
    "shape": "its shape, at equal mean and variance",
    "count": "the number of elements",
}
RIVALS = ("mean", "max", "sum", "mean_std_max", "quantile", "pma")


def chosen(records: list[Record]) -> pd.DataFrame:
    """The runs with the learning rate of each cell that is best on validation sets."""
    table = frame(records)
    score = table.groupby([*CELL, "learning_rate"])["valid"].mean()
    best = score.groupby(level=CELL).idxmax().map(lambda key: key[-1])
    best = best.rename("best").reset_index()
    table = table.merge(best, on=CELL)
    return table[table["learning_rate"] == table["best"]]


def name(readout: str) -> str:
    return "no training" if readout == PARAMETER_FREE else label(readout)


def readouts(table: pd.DataFrame) -> list[str]:
    return in_order(table["readout"].unique())


def summary(records: list[Record]) -> str:
    """The accuracies with the most training sets, for a terminal."""
    table = chosen(records)
    most = table["train_sets"].max()
    return f"Test accuracy in %, {most} training sets:\n\n{_table(table, most, False)}"


def _table(table: pd.DataFrame, train_sets: int, with_size: bool) -> str:
    found = table[
        (table["train_sets"] == train_sets) & (table["with_size"] == with_size)
    ]
    wide = found.pivot_table(
        index="readout", columns="task", values="test", aggfunc=mean_and_deviation
    )
    wide = wide.reindex(index=readouts(found), columns=[t for t in TASKS if t in wide])
    wide.index = [name(readout) for readout in wide.index]
    return markdown(wide.rename_axis(index="readout", columns=None).reset_index())


def part(config: str, records: list[Record], folder: Path) -> str:
    """The figure, then the accuracies with the fewest and the most training sets."""
    table = chosen(records)
    draw(table, folder / f"{config}.png", with_size=False)
    parts = [
        f"{len(records)} runs, {table['seed'].nunique()} seeds, of which "
        f"{len(table)} have the learning rate chosen (commit {commits(records)}).",
        f"![Test accuracy over the number of training sets]({config}.png)",
    ]
    sizes = sorted(table["train_sets"].unique())
    for with_size in sorted(table["with_size"].unique()):
        for train_sets in dict.fromkeys((sizes[0], sizes[-1])):
            parts += [
                f"Test accuracy in %, {train_sets:,} training sets, "
                f"{'with' if with_size else 'without'} the size, mean ± standard "
                f"deviation over seeds:",
                _table(table, train_sets, with_size),
            ]
    return "\n\n".join([*parts, *_best(table)])


def _best(table: pd.DataFrame) -> list[str]:
    """What to take: the best readouts of each task, over all numbers of sets."""
    rows = []
    for task in (t for t in TASKS if t in set(table["task"])):
        found = table[(table["task"] == task) & (table["readout"] != PARAMETER_FREE)]
        means = found.groupby("readout")["test"].mean().sort_values(ascending=False)
        rows.append(
            {
                "what tells classes apart": task,
                "first": f"{name(means.index[0])} ({100 * means.iloc[0]:.1f})",
                "second": f"{name(means.index[1])} ({100 * means.iloc[1]:.1f})",
                "mean": f"{100 * means.get('mean', float('nan')):.1f}",
                "max": f"{100 * means.get('max', float('nan')):.1f}",
                name(OURS): f"{100 * means.get(OURS, float('nan')):.1f}",
            }
        )
    return [
        "Accuracy averaged over all numbers of training sets, with and without size:",
        markdown(pd.DataFrame(rows)),
    ]


def front_table(records: Mapping[str, list[Record]]) -> str:
    """For the project's README: a row per task, the best readout of each in bold."""
    table = pd.concat([chosen(content) for content in records.values()])
    table = table[~table["with_size"] & table["readout"].isin(FRONT)]
    wide = 100 * table.pivot_table(index="task", columns="readout", values="test")
    wide = wide.loc[[t for t in TASKS if t in wide.index], in_order(set(wide))]
    wide = wide.round(1)
    shown, is_best = wide.map("{:.1f}".format), wide.eq(wide.max(axis=1), axis=0)
    shown = shown.where(~is_best, "**" + shown + "**").rename(columns=name)
    shown.index = [DIFFERENCES[task] for task in shown.index]
    text = markdown(shown.rename_axis("the classes differ in").reset_index())
    seeds, control = table["seed"].nunique(), name(PARAMETER_FREE)
    return f"{text}\n\nSeeds: {seeds}. *{control}* is the control."


def claims(records: Mapping[str, list[Record]]) -> list[Claim]:
    """Four heads against each rival, task by task, over seeds and numbers of sets."""
    found = []
    for content in records.values():
        table = chosen(content)
        wide = table.pivot_table(
            index=["task", "with_size", "train_sets", "seed"],
            columns="readout",
            values="test",
        )
        for task in (t for t in TASKS if t in wide.index.get_level_values("task")):
            # The numbers of sets of one seed are no independent pairs: their mean is.
            runs = wide.xs(task).groupby(level="seed").mean()
            for rival in RIVALS:
                if {OURS, rival} <= set(runs):
                    text = f"{name(OURS)} beats {name(rival)}"
                    effect = difference(runs[OURS], runs[rival])
                    found.append(Claim(text, task, effect))
    return found


def draw(table: pd.DataFrame, path: Path, with_size: bool) -> None:
    """A panel per task, and the legend in the place of the last."""
    import matplotlib.pyplot as plt

    table = table[table["with_size"] == with_size]
    tasks = [task for task in TASKS if task in set(table["task"])]
    figure, axes = plt.subplots(
        2, -(-(len(tasks) + 1) // 2), figsize=(11, 5.2), sharey=True, squeeze=False
    )
    means = table.groupby(["task", "readout", "train_sets"])["test"].mean()
    for axis, task in zip(axes.flat, tasks, strict=False):
        for readout in readouts(table):
            if (task, readout) not in means.index.droplevel("train_sets"):
                continue
            curve = 100 * means[task, readout]
            entry = READOUTS.get(readout)
            axis.plot(
                curve.index,
                curve.values,
                label=name(readout),
                color=entry.colour if entry else "0.8",
                linestyle=entry.line if entry else ":",
                linewidth=2.2 if readout.startswith("gswe_heads") else 1.2,
                marker=".",
            )
        axis.set(title=task, xscale="log", ylim=(45, 101))
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(tasks) :]:
        axis.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes.flat[len(tasks)].legend(handles, labels, loc="center", frameon=False)
    figure.supxlabel("training sets")
    figure.supylabel("test accuracy in %")
    figure.tight_layout()
    save(figure, path)
    plt.close(figure)
