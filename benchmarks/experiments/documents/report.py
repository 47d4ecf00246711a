"""Tables and figures of learning with labels (paper, figures 4 and 5)."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from benchmarks.engine.pages import NOT_WORSE, Claim, commits, spread
from benchmarks.engine.records import Record
from benchmarks.engine.statistics import difference
from benchmarks.engine.tables import markdown, mean_and_deviation, save
from benchmarks.experiments.documents.cells import (
    SIZE,
    at_shared_sizes,
    by_fold,
    chosen,
    epochs,
    is_level,
    on_test_parts,
)
from benchmarks.experiments.documents.logistic import LABEL as LOGISTIC
from benchmarks.experiments.documents.run import Run
from benchmarks.experiments.trials import trials
from benchmarks.readouts import READOUTS

DATASETS = ("twitter", "bbcsport", "classic", "amazon")
GSWE, ONE_HEAD, HEADS = "GSWE, linear", "GSWE, 1 head", "GSWE, 4 heads"
Records = Mapping[str, list[Record]]


def _main(found: Records) -> dict[str, pd.DataFrame]:
    """The first protocol of each data set."""
    parts = {name: on_test_parts(found.get(name, [])) for name in DATASETS}
    return {name: groups[0] for name, groups in parts.items() if groups}


def message(found: Records) -> str:
    """The best form of GSWE against its rivals, and the table behind it."""
    main = _main(found)
    if not main:
        return ""
    lines = []
    for name, table in main.items():
        ours = {s: chosen(table, s)[0] for s in (GSWE, ONE_HEAD, HEADS)}
        ours = {series: values for series, values in ours.items() if len(values)}
        if not ours:
            continue
        best = max(ours, key=lambda series: ours[series].mean())
        text = f"- **{name}**: {best} has {100 * ours[best].mean():.1f} %"
        for rival in ("PMA", "mean", LOGISTIC):
            effect = difference(ours[best], chosen(table, rival)[0])
            text += f"; {effect} to {rival}" if effect else ""
        lines.append(f"{text}.")
    extent = "; ".join(
        f"{name}: {epochs(table)} epochs, {table['fold'].nunique()} folds"
        for name, table in main.items()
    )
    order = pd.concat(main.values()).sort_values(["place", "series"])["series"].unique()
    rows = {
        name: [_chosen_cell(table, series) for series in order]
        for name, table in main.items()
    }
    return "\n\n".join(
        [
            "The form of GSWE with the highest accuracy in each data set, and its "
            "differences in points, mean ± half-width of the 95 % t-interval (folds "
            "better / equal / worse):",
            "\n".join(lines),
            f"Accuracy in % ({extent}), mean ± standard deviation over folds. The size "
            f"of a readout (references x elements) is chosen in each fold by what was "
            f"best in the *other* folds; the one taken most often is shown.",
            markdown(pd.DataFrame({"readout": order, **rows})),
        ]
    )


def _chosen_cell(table: pd.DataFrame, series: str) -> str:
    values, size = chosen(table, series)
    if values.empty:
        return ""
    text = mean_and_deviation(values)
    readout = table.loc[table["series"] == series, "readout"].iloc[0]
    return text if is_level(readout) else f"{text} ({size[0]}x{size[1]})"


def claims(found: Records) -> list[Claim]:
    """What the paper says, and what we add to it."""
    listed = []
    for name, table in _main(found).items():

        def add(text, ours, theirs, margin=0.0, name=name):
            listed.append(Claim(text, name, difference(ours, theirs), margin))

        def at(series, table=table):
            return chosen(table, series)[0]

        text = "GSWE is not worse than PMA, mean of the sizes of both"
        add(text, *at_shared_sizes(table, GSWE, "PMA"), NOT_WORSE)
        for rival in ("PMA", "mean", "RepSet", "ApproxRepSet", LOGISTIC):
            add(f"GSWE beats {rival}", at(GSWE), at(rival))
        add("GSWE is not worse than mean", at(GSWE), at("mean"), NOT_WORSE)
        for rival in ("PMA", "mean", GSWE):
            add(f"{HEADS}, beats {rival}", at(HEADS), at(rival))
        add(f"{HEADS}, is not worse than mean", at(HEADS), at("mean"), NOT_WORSE)
        for series in (GSWE, "mean"):
            counted = at_shared_sizes(table, f"{series}, word counts", series)
            add(f"word counts help {series}", *counted)
    return listed


def summary(records: list[Record]) -> str:
    """All cells, or the trials, for a terminal."""
    parts = [_sizes(table) for table in on_test_parts(records)]
    return "\n\n".join(filter(None, [*parts, trials(records, Run)]))


def part(name: str, records: list[Record], folder: Path) -> str:
    """A table for each protocol, the first with a figure, and the trials."""
    parts = []
    for number, table in enumerate(on_test_parts(records)):
        if number == 0:
            draw(table, name, folder / f"{name}.png")
            text = "Accuracy over the elements of one reference, and over references"
            parts.append(f"![{text}]({name}.png)")
        folds = table.groupby(["series", *SIZE])["fold"].nunique()
        parts += [
            f"Accuracy in % after {epochs(table)} epochs, mean ± standard deviation "
            f"over {spread(folds)} folds, by references x elements (PMA: heads x "
            f"seeds); parameters and processor seconds per epoch at the size "
            f"chosen most often. {len(table)} runs, commit "
            f"{commits(table.to_dict('records'))}.",
            _sizes(table),
        ]
    return "\n\n".join(filter(None, [*parts, trials(records, Run)]))


def _sizes(table: pd.DataFrame) -> str:
    """A row per series, a column per size."""
    rows = []
    for series in table["series"].unique():
        own = table[table["series"] == series]
        wide, (_, size) = by_fold(own), chosen(table, series)
        runs = own[(own[SIZE] == list(size)).all(axis=1)]
        row = {f"{r}x{p}": mean_and_deviation(wide[r, p].dropna()) for r, p in wide}
        if is_level(own["readout"].iloc[0]):
            row = {"any": row["1x1"]}
        seconds = runs.get("epoch_seconds", pd.Series(dtype=float)).median()
        row["parameters"] = f"{runs['parameters'].iloc[0]:,.0f}"
        row["seconds"] = f"{seconds:.2f}" if seconds == seconds else ""
        rows.append({"readout": series, **row})
    found = pd.DataFrame(rows)
    sizes = [c for c in found if "x" in c and c[0].isdigit()]
    sizes.sort(key=lambda c: tuple(map(int, c.split("x"))))
    columns = ["readout", "any", *sizes, "parameters", "seconds"]
    return markdown(found[[c for c in columns if c in found]])


def draw(table: pd.DataFrame, name: str, path: Path) -> None:
    """The paper's two figures for one data set, side by side."""
    from matplotlib.figure import Figure

    one = table[table["references"] == 1]
    fixed = table.loc[table["references"] > 1, "points"].unique()
    several = table[table["points"].isin(fixed)]
    panels = [(one, "points", "elements of one reference (seeds)")]
    if several["references"].nunique() > 1:
        text = f"references of {fixed[0]} elements (heads, sets)"
        panels.append((several, "references", text))
    figure = Figure(figsize=(5 * len(panels), 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    handles = {}
    for panel, (runs, axis, title) in zip(axes, panels, strict=True):
        for series in table["series"].unique():
            own = table[table["series"] == series]
            readout = own["readout"].iloc[0]
            style = {
                "label": series,
                "color": READOUTS[readout].colour if readout in READOUTS else "0.8",
                "linestyle": "-" if series.count(",") < 2 else "--",
            }
            if is_level(readout):
                level = 100 * own["accuracy"].mean()
                handles[series] = panel.axhline(level, **style)
                continue
            found = runs[runs["series"] == series].groupby(axis)["accuracy"]
            values = 100 * found.agg(["mean", "std"]).fillna(0)
            if len(values):
                style |= {"marker": "o", "markersize": 4, "capsize": 2}
                handles[series] = panel.errorbar(
                    values.index, values["mean"], values["std"], **style
                )
        ticks = sorted(runs[axis].unique())
        panel.set_xscale("log", base=2)
        panel.set_xticks(ticks, list(map(str, ticks)))
        panel.set(xlabel=title, title=name)
        panel.grid(alpha=0.3)
    axes[0].set_ylabel("accuracy in %")
    options = {"loc": "outside right upper", "fontsize": "small"}
    figure.legend(handles.values(), handles.keys(), **options)
    save(figure, path)
