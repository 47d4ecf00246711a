"""The two kinds of figures that the pages have."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from benchmarks.engine.tables import save
from benchmarks.readouts import colour

MARKERS = "os^"


def lines(
    table: pd.DataFrame, path: Path, labels: tuple[str, str], rows: int = 1
) -> None:
    """A panel for each ``panel`` of the table, a line for each ``series`` in the colour
    of its ``readout``: the mean and deviation of ``value`` over ``x``, or a level where
    there is no ``x``."""
    groups = table.groupby("panel", sort=False)
    columns, handles = -(-groups.ngroups // rows), {}
    figure, panels = _figure((2.5 + 3 * columns, 1 + 2.6 * rows), rows, columns)
    for panel, (title, runs) in zip(panels, groups, strict=False):
        drawn = set()
        for series, own in runs.groupby("series", sort=False):
            hue = colour(own["readout"].iloc[0])
            style = {"color": hue, "linestyle": "--" if hue in drawn else "-"}
            drawn.add(hue)
            found = own.groupby("x")["value"].agg(["mean", "std"]).fillna(0)
            if found.empty:
                handles[series] = panel.axhline(own["value"].mean(), **style)
            else:
                style |= {"marker": "o", "markersize": 4, "capsize": 2}
                handles[series] = panel.errorbar(
                    found.index, found["mean"], found["std"], **style
                )
        ticks = sorted(runs["x"].dropna().astype(int).unique())
        panel.set_title(title, fontsize="small")
        panel.set_xscale("log")
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        panel.minorticks_off()
    for panel in panels[groups.ngroups :]:
        panel.axis("off")
    figure.supxlabel(labels[0])
    figure.supylabel(labels[1])
    _finish(figure, handles, path, loc="outside right upper")


def intervals(
    table: pd.DataFrame, colours: Mapping[str, str], path: Path, label: str
) -> None:
    """A panel for each ``panel``, a row for each ``name``, a mark with an interval for
    each ``series``: ``mean`` and ``half``, filled where it ``is_clear``."""
    names, handles = list(table["name"].unique()), {}
    groups = table.groupby("panel", sort=False)
    size = (3 + 3.2 * groups.ngroups, 1.3 + 0.3 * len(names))
    figure, panels = _figure(size, 1, groups.ngroups)
    for panel, (title, found) in zip(panels, groups, strict=True):
        for number, (series, own) in enumerate(found.groupby("series", sort=False)):
            shift = 0.25 * (number - (found["series"].nunique() - 1) / 2)
            for is_clear, rows in own.groupby("is_clear"):
                mark = panel.errorbar(
                    rows["mean"],
                    [names.index(name) + shift for name in rows["name"]],
                    xerr=rows["half"],
                    fmt=MARKERS[number],
                    color=colours[series],
                    markerfacecolor=colours[series] if is_clear else "white",
                    markersize=4,
                    capsize=2,
                )
                handles.setdefault(series, mark)
        panel.set_title(title, fontsize="small")
        panel.set_xlabel(label, fontsize="small")
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    _finish(figure, handles, path, loc="outside upper center", ncols=3)


def _figure(size: tuple[float, float], rows: int, columns: int) -> tuple[Figure, list]:
    figure = Figure(figsize=size, layout="constrained")
    panels = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
    for panel in panels:
        panel.grid(alpha=0.3)
    return figure, panels


def _finish(figure: Figure, handles: dict, path: Path, **place: object) -> None:
    figure.legend(handles.values(), handles.keys(), fontsize="small", **place)
    save(figure, path)
