"""Learning curves, a panel per task, and what follows from them."""

from collections.abc import Mapping
from pathlib import Path
from statistics import mean

import pandas as pd

from benchmarks.engine.pages import Claim, comparison, origin
from benchmarks.engine.records import Record, frame
from benchmarks.engine.statistics import best_cells, difference
from benchmarks.engine.tables import bold_best, cells, markdown
from benchmarks.experiments.when.data import TASKS
from benchmarks.experiments.when.run import PARAMETER_FREE, Run
from benchmarks.readouts import by_readout, label

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
    table = by_readout(best_cells(frame(records, Run), CELL, ["learning_rate"]))
    tasks = list(TASKS)
    return table.sort_values("task", key=lambda t: t.map(tasks.index), kind="stable")


def summary(records: list[Record]) -> str:
    """The accuracies with the most training sets, for a terminal."""
    table = chosen(records)
    most = table["train_sets"].max()
    found = table[(table["train_sets"] == most) & ~table["with_size"]]
    return f"Test accuracy in %, {most} training sets:\n\n{_table(found)}"


def _table(table: pd.DataFrame) -> str:
    shown = cells(table, "readout", "task", "test")
    return markdown(shown.rename(index=label), "readout")


def part(config: str, records: list[Record], folder: Path) -> str:
    """Accuracies of all readouts with the fewest and the most training sets."""
    table = chosen(records)
    shown = table[table["readout"].isin(FRONT) & ~table["with_size"]]
    if len(shown):
        draw(shown, folder / f"{config}.png")
    parts = [
        f"{origin(frame(records, Run))}; {table['seed'].nunique()} seeds; {len(table)} "
        f"runs have the learning rate chosen."
    ]
    sizes = table["train_sets"].min(), table["train_sets"].max()
    shown = table[table["train_sets"].isin(sizes)]
    for (with_size, train_sets), runs in shown.groupby(["with_size", "train_sets"]):
        parts += [
            f"Test accuracy in %, {train_sets:,} training sets, "
            f"{'with' if with_size else 'without'} the size, mean ± standard "
            f"deviation over seeds:",
            _table(runs),
        ]
    return "\n\n".join(parts)


def _means(records: Records, with_size: bool = False) -> pd.DataFrame:
    """Accuracies in %, a row per task, over all numbers of training sets and seeds."""
    table = pd.concat([chosen(content) for content in records.values()])
    table = table[table["with_size"] == with_size]
    # Exact, as the mean of floats may fall to either side of a tie when rounded.
    return 100 * table.pivot_table("test", "task", "readout", mean, sort=False)


def _behind(wide: pd.DataFrame) -> pd.DataFrame:
    """By how much each readout is behind the best one of the task."""
    wide = wide.drop(columns=PARAMETER_FREE, errors="ignore")
    return wide.rsub(wide.max(axis=1), axis=0)


def message(records: Records) -> str:
    """What to take if one does not know, what it costs, and what it gains; nothing, if
    not all of it was run."""
    wide, told = _means(records), _behind(_means(records, with_size=True))
    if not {*FRONT} <= {*wide} or OURS not in told:
        return ""
    behind, told = _behind(wide), told[OURS]
    ours, worst, name = behind[OURS], behind.max(), label(OURS)
    rest = ", ".join(f"{label(r)} {worst[r]:.1f}" for r in FRONT[:4])
    gain = (wide[OURS] - wide["mean"]).sort_values()
    control = (wide[PARAMETER_FREE] - wide["mean"]).mean()
    lines = [
        f"- **If you do not know what tells your sets apart, take {name}**: "
        f"over {len(wide)} tasks it is {ours.mean():.1f} points behind the best "
        f"readout of each on average and {ours.max():.1f} at worst "
        f"(*{ours.idxmax()}*). At worst, others are behind by: {rest}.",
        f"- **What it gains over the mean**: {gain.iloc[-1]:+.1f} points where the "
        f"classes differ in {DIFFERENCES[gain.index[-1]]}; **what it costs**: "
        f"{gain.iloc[0]:+.1f} points where they differ in "
        f"{DIFFERENCES[gain.index[0]]}.",
        f"- **Its weak spot**: {DIFFERENCES[ours.idxmax()]}. With the "
        f"logarithm of the size appended to every readout, it is still "
        f"{told.max():.1f} points behind at worst (*{told.idxmax()}*): where sizes "
        f"or totals matter, take the sum, alone or beside it.",
        f"- The control, quantiles in fixed directions and logistic regression, "
        f"has {control:.1f} of the {gain.mean():.1f} points that {name} is "
        f"ahead of the mean on average.",
    ]
    name = next(iter(records))
    figure = f"![Test accuracy over the number of training sets]({name}.png)"
    return "\n\n".join(["\n".join(lines), front_table(records), figure])


def front_table(records: Records) -> str:
    """For the project's README: a row per task, the best readout of each in bold."""
    wide = _means(records).reindex(columns=FRONT).dropna(axis=1).round(1)
    shown = bold_best(wide.map("{:.1f}".format), wide).rename(index=DIFFERENCES)
    worst = wide.rsub(wide.max(axis=1), axis=0).max()
    shown.loc["*behind the best, at worst*"] = worst.map("*{:.1f}*".format)
    table = markdown(shown.rename(columns=label), "the classes differ in")
    seeds = max(len({r["config"]["seed"] for r in c}) for c in records.values())
    return f"{table}\n\nSeeds: {seeds}. *{label(PARAMETER_FREE)}* is the control."


def decision_table(records: Records) -> str:
    """For the docs: the simplest readout that is close to the best one of each task."""
    wide, rows = _means(records), []
    for task, behind in _behind(wide).iterrows():
        close = behind.index[behind < CLOSE]
        take = min(close, key=lambda readout: readout not in FRONT)
        shown = wide.loc[task].reindex([take, "mean", OURS]).map("{:.1f} %".format)
        found = f"{label(take)} ({shown.iloc[0]})"
        rows.append((DIFFERENCES[task], found, *shown.iloc[1:]))
    columns = ["your sets differ in", "take", "mean", label(OURS)]
    return markdown(pd.DataFrame(rows, columns=columns))


def claims(records: Records) -> list[Claim]:
    """Four heads against each rival, task by task, over seeds and numbers of sets."""
    listed = []
    for content in records.values():
        # The numbers of sets of one seed are no independent pairs: their mean is.
        for task, runs in chosen(content).groupby("task", sort=False):
            wide = runs.pivot_table(
                "test", ["with_size", "train_sets", "seed"], "readout"
            )
            wide = wide.groupby("seed").mean()
            listed += [
                comparison(label(OURS), label(r), task, difference(wide[OURS], wide[r]))
                for r in RIVALS
                if {OURS, r} <= set(wide)
            ]
    return listed


def draw(table: pd.DataFrame, path: Path) -> None:
    """A panel per task."""
    from benchmarks.engine.figures import lines

    table = table.assign(
        panel=table["task"].map(DIFFERENCES).str.replace(", at", ",\nat"),
        series=table["readout"].map(label),
        x=table["train_sets"],
        value=100 * table["test"],
    )
    lines(table, path, ("training sets", "test accuracy in %"), rows=2)
