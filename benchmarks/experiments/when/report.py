"""Learning curves, a panel per task, and what follows from them."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from benchmarks.engine.pages import Claim, commits
from benchmarks.engine.records import Record, frame
from benchmarks.engine.statistics import best_cells, difference
from benchmarks.engine.tables import markdown, mean_and_deviation, save
from benchmarks.experiments.when.data import TASKS
from benchmarks.experiments.when.run import PARAMETER_FREE, Run
from benchmarks.readouts import READOUTS, in_order, label

CELL = ["task", "with_size", "train_sets", "readout"]
OURS = "gswe_heads4"
#: What is shown first, the simplest to the left.
FRONT = ("mean", "sum", "max", "pma", OURS, PARAMETER_FREE)
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
#: Points that a simpler readout may lack.
CLOSE = 1.0
Records = Mapping[str, list[Record]]


def chosen(records: list[Record]) -> pd.DataFrame:
    """The runs with the learning rate of each cell that is best on validation sets."""
    return best_cells(frame(records, Run), CELL, ["learning_rate"])


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
    """Accuracies of all readouts with the fewest and the most training sets."""
    table = chosen(records)
    draw(table, folder / f"{config}.png", with_size=False)
    parts = [
        f"{len(records)} runs, {table['seed'].nunique()} seeds, of which "
        f"{len(table)} have the learning rate chosen (commit {commits(records)})."
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
    return "\n\n".join(parts)


def _means(records: Records, with_size: bool = False) -> pd.DataFrame:
    """Accuracies in %, a row per task, over all numbers of training sets and seeds."""
    table = pd.concat([chosen(content) for content in records.values()])
    table = table[table["with_size"] == with_size]
    wide = 100 * table.pivot_table(index="task", columns="readout", values="test")
    return wide.loc[[t for t in TASKS if t in wide.index], in_order(set(wide))]


def _behind(wide: pd.DataFrame) -> pd.DataFrame:
    """By how much each readout is behind the best one of the task."""
    wide = wide.drop(columns=PARAMETER_FREE, errors="ignore")
    return wide.rsub(wide.max(axis=1), axis=0)


def message(records: Records) -> str:
    """What to take if one does not know, what it costs, and what it gains."""
    wide = _means(records)
    behind = _behind(wide)
    if OURS not in wide or "mean" not in wide:
        return ""
    worst = pd.DataFrame({"at worst": behind.max(), "mean": behind.mean()})
    named = [r for r in ("mean", "sum", "max", "pma") if r in behind]
    rest = ", ".join(f"{name(r)} {worst.loc[r, 'at worst']:.1f}" for r in named)
    gain = (wide[OURS] - wide["mean"]).sort_values()
    lines = [
        f"- **If you do not know what tells your sets apart, take {name(OURS)}**: over "
        f"{len(wide)} tasks it is {worst.loc[OURS, 'mean']:.1f} points behind the best "
        f"readout of each on average and {worst.loc[OURS, 'at worst']:.1f} at worst "
        f"(*{behind[OURS].idxmax()}*). At worst, others are behind by: {rest}.",
        f"- **What it gains over the mean**: {gain.iloc[-1]:+.1f} points where the "
        f"classes differ in {DIFFERENCES[gain.index[-1]]}; **what it costs**: "
        f"{gain.iloc[0]:+.1f} points where they differ in "
        f"{DIFFERENCES[gain.index[0]]}.",
    ]
    if any(r["config"]["with_size"] for c in records.values() for r in c):
        told = _behind(_means(records, with_size=True))[OURS]
        lines.append(
            f"- **Its weak spot**: {DIFFERENCES[behind[OURS].idxmax()]}. With the "
            f"logarithm of the size appended to every readout, it is still "
            f"{told.max():.1f} points behind at worst (*{told.idxmax()}*): where sizes "
            f"or totals matter, take the sum, alone or beside it."
        )
    if PARAMETER_FREE in wide:
        control = (wide[PARAMETER_FREE] - wide["mean"]).mean()
        lines.append(
            f"- The control, quantiles in fixed directions and logistic regression, "
            f"has {control:.1f} of the {gain.mean():.1f} points that {name(OURS)} is "
            f"ahead of the mean on average."
        )
    config = next(iter(records))
    figure = f"![Test accuracy over the number of training sets]({config}.png)"
    return "\n\n".join(["\n".join(lines), front_table(records), figure])


def front_table(records: Records) -> str:
    """For the project's README: a row per task, the best readout of each in bold."""
    wide = _means(records)[lambda t: [r for r in FRONT if r in t]].round(1)
    shown, is_best = wide.map("{:.1f}".format), wide.eq(wide.max(axis=1), axis=0)
    shown = shown.where(~is_best, "**" + shown + "**")
    shown.index = [DIFFERENCES[task] for task in shown.index]
    shown.loc["*behind the best, at worst*"] = [
        f"*{value:.1f}*" for value in wide.rsub(wide.max(axis=1), axis=0).max()
    ]
    shown = shown.rename(columns=name).rename_axis("the classes differ in")
    seeds = max(len({r["config"]["seed"] for r in c}) for c in records.values())
    text = f"Seeds: {seeds}. *{name(PARAMETER_FREE)}* is the control."
    return f"{markdown(shown.reset_index())}\n\n{text}"


def decision_table(records: Records) -> str:
    """For the docs: the simplest readout that is close to the best one of each task."""
    wide, rows = _means(records), []
    for task, found in wide.drop(columns=PARAMETER_FREE, errors="ignore").iterrows():
        close = [r for r in found.index if found[r] > found.max() - CLOSE]
        simplest = min(
            close, key=lambda r: (r not in FRONT, list(found.index).index(r))
        )
        rows.append(
            {
                "your sets differ in": DIFFERENCES[task],
                "take": f"{name(simplest)} ({found[simplest]:.1f} %)",
                "mean": f"{found.get('mean', float('nan')):.1f} %",
                name(OURS): f"{found.get(OURS, float('nan')):.1f} %",
            }
        )
    return markdown(pd.DataFrame(rows))


def claims(records: Records) -> list[Claim]:
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
        2,
        -(-(len(tasks) + 1) // 2),
        figsize=(11, 5.2),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    means = table.groupby(["task", "readout", "train_sets"])["test"].mean()
    for axis, task in zip(axes.flat, tasks, strict=False):
        for readout in FRONT:
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
        title = DIFFERENCES[task].replace(", at", ",\nat")
        axis.set(title=title, xscale="log", ylim=(45, 101))
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(tasks) :]:
        axis.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes.flat[len(tasks)].legend(handles, labels, loc="center", frameon=False)
    figure.supxlabel("training sets")
    figure.supylabel("test accuracy in %")
    save(figure, path)
    plt.close(figure)
