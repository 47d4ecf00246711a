"""Tables and figures of learning with labels (paper, figures 4 and 5)."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from benchmarks.engine.pages import Claim, commits, spread
from benchmarks.engine.records import Record, frame
from benchmarks.engine.tables import difference, markdown, mean_and_deviation, save
from benchmarks.experiments.documents import claims as across
from benchmarks.experiments.documents.cells import (
    FOLD,
    SIZE,
    best,
    by_points,
    by_references,
    cells,
    is_level,
    on_test_parts,
    per_fold,
    same_for_gswe,
)
from benchmarks.experiments.documents.logistic import NAME as LOGISTIC
from benchmarks.readouts import READOUTS

NOT_TRIED = ("fold", "seed", "dataset")
Records = list[Record]


def claims(records: Mapping[str, Records]) -> list[Claim]:
    return across.claims(across.load(records))


def overview(records: Mapping[str, Records]) -> str:
    return across.overview(across.load(records))


def summary(records: Records) -> str:
    """The best cells, or the trials, for a terminal."""
    parts = [_best(cells(group)) for _, group in on_test_parts(records)]
    return "\n\n".join([*parts, *_all_trials(records)])


def part(name: str, records: Records, folder: Path) -> str:
    """One part per protocol, each with a figure, and the trials."""
    parts = []
    for number, (protocol, group) in enumerate(on_test_parts(records), start=1):
        figure = f"{name}.png" if number == 1 else f"{name}-{number}.png"
        parts += _protocol(name, protocol, group, folder / figure)
    return "\n\n".join([*parts, *_all_trials(records)])


def _protocol(name: str, protocol: str, group: Records, figure: Path) -> list[str]:
    table = cells(group)
    draw(table, name, figure)
    folds = table.groupby(["series", *SIZE]).size()
    several = by_references(table)
    parts = [
        f"{len(group)} runs, {spread(folds)} folds per cell ({protocol}"
        f"{same_for_gswe(table)}; commit {commits(group)}).",
        f"![Accuracy on {name} over the elements of one reference, and over the number "
        f"of references]({figure.name})",
        "Accuracy in % of the last epoch, mean ± standard deviation over folds, one "
        "reference set (head, hidden set) of a growing number of elements (seeds):",
        _table(by_points(table), "points", _accuracy),
    ]
    if several["references"].nunique() > 1:
        parts += [
            f"The same with {several['points'].iloc[0]} elements and a growing number "
            f"of references (heads, hidden sets):",
            _table(several, "references", _accuracy),
        ]
    parts += [
        "The best cell of each, chosen by these very accuracies, with its parameters, "
        "the training loss of its last epoch and, fold by fold, its difference to the "
        "best of PMA in percentage points:",
        _best(table),
        "Parameters / processor seconds per training epoch (median):",
        _table(by_points(table), "points", _cost),
    ]
    if several["references"].nunique() > 1:
        parts.append(_table(several, "references", _cost))
    return parts


def _table(table: pd.DataFrame, axis: str, show) -> str:
    """A row per series, a column per size."""
    found = {key: show(runs) for key, runs in table.groupby(["series", axis])}
    wide = pd.Series(found).unstack()
    wide = wide.loc[table["series"].unique(), sorted(table[axis].unique())]
    head = f"readout \\ {'elements' if axis == 'points' else axis}"
    return markdown(wide.rename(columns=str).rename_axis(head).reset_index())


def _accuracy(runs: pd.DataFrame) -> str:
    return mean_and_deviation(runs["accuracy"])


def _cost(runs: pd.DataFrame) -> str:
    parameters = f"{runs['parameters'].iloc[0]:,.0f}"
    if runs["readout"].iloc[0] == LOGISTIC:
        return parameters  # there are no epochs
    return f"{parameters} / {runs['epoch_seconds'].median():.2f}"


def _best(table: pd.DataFrame) -> str:
    rival = best(table, "PMA")
    rows = []
    for series in table["series"].unique():
        runs = best(table, series)
        first = runs.iloc[0]
        to_rival = None
        if series != "PMA" and not rival.empty:
            to_rival = difference(
                runs.set_index(FOLD)["accuracy"], rival.set_index(FOLD)["accuracy"]
            )
        rows.append(
            {
                "readout": series,
                "elements": str(first["points"]),
                "references": str(first["references"]),
                "accuracy": _accuracy(runs),
                "parameters": f"{first['parameters']:,.0f}",
                "training loss": f"{runs['train_loss'].mean():.3f}",
                "difference to PMA": to_rival,
            }
        )
    return markdown(pd.DataFrame(rows))


def _all_trials(records: Records) -> list[str]:
    trials = [r for r in records if r["config"]["evaluate"] == "validation"]
    return [_trials(group) for group in _comparable(trials)]


def _comparable(trials: Records) -> list[Records]:
    """Apart, what data sets with no setting in common were tried for."""
    groups: list[tuple[set[str], set[tuple]]] = []
    for record in trials:
        config = record["config"]
        setting = tuple(v for k, v in config.items() if k not in NOT_TRIED)
        group = ({config["dataset"]}, {setting})
        for other in [g for g in groups if g[0] & group[0] or g[1] & group[1]]:
            groups.remove(other)
            group = (other[0] | group[0], other[1] | group[1])
        groups.append(group)
    return [[r for r in trials if r["config"]["dataset"] in g[0]] for g in groups]


def _trials(records: Records) -> str:
    """Validation accuracy by all settings that differ, a column for each data set."""
    table = frame(records)
    kept = [name for name in records[0]["config"] if name not in NOT_TRIED]
    differing = [name for name in kept if table[name].nunique() > 1]
    rows = table.groupby([*(differing or kept[:1]), "dataset"], sort=False)["accuracy"]
    wide = rows.agg(mean_and_deviation).unstack(sort=False)
    means = rows.mean().unstack(sort=False).mean(axis=1, skipna=False)
    wide["mean"] = [f"{100 * m:.1f}" if m == m else "" for m in means]
    wide = wide.rename_axis(columns=None).reset_index()
    wide[differing] = wide[differing].astype(str)
    fixed = ", ".join(f"{k}={table[k].iloc[0]}" for k in kept if k not in differing)
    return (
        f"{len(records)} trials on training documents only: a fifth of the training "
        f"part of a fold is held out, and no test part is looked at. Accuracy on these "
        f"held-out documents in %, mean ± standard deviation over folds and seeds "
        f"({fixed}; commit {commits(records)}).\n\n{markdown(wide)}"
    )


def draw(table: pd.DataFrame, name: str, path: Path) -> None:
    """The paper's two figures for one data set, side by side."""
    from matplotlib.figure import Figure

    panels = [(by_points(table), "points", "elements of one reference (seeds)")]
    several = by_references(table)
    if several["references"].nunique() > 1:
        title = f"references of {several['points'].iloc[0]} elements (heads, sets)"
        panels.append((several, "references", title))
    figure = Figure(figsize=(5 * len(panels), 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for panel, (runs, axis, title) in zip(axes, panels, strict=True):
        for series in table["series"].unique():
            _draw_line(panel, table, runs, series, axis)
        values = sorted(runs[axis].unique())
        panel.set_xscale("log", base=2)
        panel.set_xticks(values, list(map(str, values)))
        panel.set_xlabel(title)
        panel.set_title(name)
        panel.grid(alpha=0.3)
    axes[0].set_ylabel("accuracy in %")
    handles = {
        label: handle
        for panel in axes
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside right upper", fontsize="small"
    )
    save(figure, path)


def _draw_line(
    panel, table: pd.DataFrame, runs: pd.DataFrame, series: str, axis: str
) -> None:
    own = table[table["series"] == series]
    readout = own["readout"].iloc[0]
    lines = ("-", "--", ":", "-.")
    style = {
        "label": series,
        "color": READOUTS[readout].colour if readout in READOUTS else "0.8",
        "linestyle": lines[own["num_variants"].iloc[0] % len(lines)],
    }
    if is_level(readout):
        panel.axhline(100 * per_fold(best(table, series)).mean(), **style)
        return
    found = runs[runs["series"] == series].groupby(axis)["accuracy"]
    if len(found):
        values = 100 * found.agg(["mean", "std"]).fillna(0)
        style |= {"marker": "o", "markersize": 4, "capsize": 2}
        panel.errorbar(values.index, values["mean"], values["std"], **style)
