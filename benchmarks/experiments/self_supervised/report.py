"""The tables and the figure of learning without labels (paper, figure 3)."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from benchmarks.engine.pages import NOT_WORSE, Claim, commits, protocols, spread
from benchmarks.engine.records import Record, frame
from benchmarks.engine.tables import difference, markdown, mean_and_deviation, save
from benchmarks.readouts import READOUTS, in_order, label

AXES = ("readout", "loss", "points", "start", "seed")
LOSSES = {"simclr": "SimCLR", "simsiam": "SimSiam"}
RIVALS = ("pma", "pma_near_origin")
START_LINES = {"0": "-", "0.1": "--", "1": ":"}


def cells(records: list[Record]) -> pd.DataFrame:
    """A row per run; ``series`` is its row in a table: a readout, and its start where
    a readout was tried with several."""
    table = frame(records)
    several = table.groupby("readout")["start"].transform("nunique") > 1
    table["detail"] = table["start"].map("{:g}".format).where(several, "")
    table["series"] = [
        f"{label(readout)}, start {detail}" if detail else label(readout)
        for readout, detail in zip(table["readout"], table["detail"], strict=True)
    ]
    order = in_order(table["readout"].unique())
    table["place"] = table["readout"].map(order.index)
    return table.sort_values(["place", "detail"], kind="stable")


def _pivot(
    table: pd.DataFrame, values: str, how, head: str = "readout"
) -> pd.DataFrame:
    """A row per series, in their order, a column per number of points."""
    wide = table.pivot_table(
        index="series", columns="points", values=values, aggfunc=how, sort=False
    )
    wide = wide[sorted(wide.columns)].rename(columns=str)
    return wide.rename_axis(index=f"{head} \\ points", columns=None).reset_index()


def summary(records: list[Record]) -> str:
    """The accuracies, for a terminal."""
    parts = []
    for _, group in protocols(records, AXES):
        parts += _accuracies(cells(group))
    return "\n\n".join(parts)


def _accuracies(table: pd.DataFrame) -> list[str]:
    parts = []
    for loss, found in sorted(table.groupby("loss"), key=lambda item: item[0]):
        name = LOSSES.get(loss, loss)
        caption = f"1-NN accuracy in %, {name}, mean ± standard deviation over seeds:"
        parts += [caption, markdown(_pivot(found, "accuracy", mean_and_deviation))]
    return parts


def part(name: str, records: list[Record], folder: Path) -> str:
    """One part per protocol, each with a figure."""
    parts = []
    for number, (protocol, group) in enumerate(protocols(records, AXES), start=1):
        figure = f"{name}.png" if number == 1 else f"{name}-{number}.png"
        table = cells(group)
        draw(table, folder / figure)
        seeds = table.groupby(["series", "loss", "points"]).size()
        parts += [
            f"{len(group)} runs, {spread(seeds)} seeds per cell ({protocol}; "
            f"commit {commits(group)}).",
            f"![1-NN accuracy over the number of points]({figure})",
            *_accuracies(table),
            *_differences(table),
            "Parameters (backbone and readout), and processor seconds per run:",
            _costs(table),
        ]
    return "\n\n".join(parts)


def _differences(table: pd.DataFrame) -> list[str]:
    wide = table.pivot_table(
        index=["loss", "points", "seed"], columns="series", values="accuracy"
    )
    rows = []
    for loss, by_loss in wide.groupby(level="loss"):
        for rival in (label(name) for name in RIVALS):
            for ours in table["series"].unique():
                if not ours.startswith("GSWE") or rival not in wide:
                    continue
                found = {
                    str(points): difference(group[ours], group[rival])
                    for points, group in by_loss.groupby(level="points")
                }
                if any(found.values()):
                    pair = f"{LOSSES.get(loss, loss)}: ({ours}) - ({rival})"
                    rows.append({"difference \\ points": pair, **found})
    if not rows:
        return []
    return [
        "Differences of accuracies with as many points and the same seed, in "
        "percentage points, mean ± half-width of its 95 % t-interval (seeds better / "
        "equal / worse):",
        markdown(pd.DataFrame(rows)),
    ]


def _costs(table: pd.DataFrame) -> str:
    wide = _pivot(table, "parameters", lambda values: f"{values.iloc[0]:,.0f}")
    seconds = table.groupby("series", sort=False)["cpu_seconds"].median()
    wide["seconds"] = [f"{seconds[name]:.2f}" for name in wide.iloc[:, 0]]
    return markdown(wide)


def claims(records: Mapping[str, list[Record]]) -> list[Claim]:
    """What the paper says of figure 3, on each data set with records."""
    found = []
    for name in ("set_circles", "set_circles_noisy", "point_cloud_mnist"):
        if name not in records:
            continue
        table = cells(protocols(records[name], AXES)[0][1])
        for loss, title in LOSSES.items():
            runs = table[table["loss"] == loss]
            data = f"{name}, {title}"

            def compare(text, ours, theirs, points, margin=0.0, runs=runs, data=data):
                sizes = runs[runs["points"].isin(points) | (runs["readout"] == "mean")]
                one, other = (_by_seed(sizes, n, points) for n in (ours, theirs))
                return Claim(text, data, difference(one, other), margin)

            many = [points for points in sorted(runs["points"].unique()) if points > 1]
            near = runs.loc[runs["readout"] == "pma_near_origin", "points"].unique()
            found += [
                compare(
                    "GSWE (2 points or more) beats PMA", "gswe_linear", "pma", many
                ),
                compare(
                    "GSWE beats PMA that starts near the origin",
                    "gswe_linear",
                    "pma_near_origin",
                    list(near),
                ),
                compare(
                    "GSWE (2 points or more) beats mean pooling",
                    "gswe_linear",
                    "mean",
                    many,
                ),
                compare(
                    "GSWE, barycentric, with one point is not worse than mean pooling",
                    "gswe_barycentric",
                    "mean",
                    [1],
                    NOT_WORSE,
                ),
                compare(
                    "linear is not worse than barycentric (2 points or more)",
                    "gswe_linear",
                    "gswe_barycentric",
                    many,
                    NOT_WORSE,
                ),
                compare("PMA with one seed beats mean pooling", "pma", "mean", [1]),
            ]
    return found


def _by_seed(runs: pd.DataFrame, readout: str, points: list[int]) -> pd.Series:
    """The mean accuracy over the numbers of points, for seeds that have all of them."""
    own = runs[runs["readout"] == readout]
    wide = own.pivot_table(index="seed", columns="points", values="accuracy")
    if readout != "mean":
        wide = wide.reindex(columns=points)
    return wide.mean(axis=1, skipna=False)


def draw(table: pd.DataFrame, path: Path) -> None:
    """A panel per loss: accuracy over points, a line per series."""
    from matplotlib.figure import Figure

    losses, points = sorted(table["loss"].unique()), sorted(table["points"].unique())
    figure = Figure(figsize=(4.2 * len(losses), 3.4), layout="constrained")
    panels = figure.subplots(1, len(losses), squeeze=False)[0]
    for panel, loss in zip(panels, losses, strict=True):
        for _, runs in table[table["loss"] == loss].groupby("series", sort=False):
            _draw_line(panel, runs)
        panel.set_title(LOSSES.get(loss, loss))
        panel.set_xscale("log", base=2)
        panel.set_xticks(points, list(map(str, points)))
        panel.set_xlabel("points of the reference (seeds of PMA)")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("1-NN accuracy in %")
    panels[-1].legend(loc="lower right", fontsize="small")
    save(figure, path)


def _draw_line(panel, runs: pd.DataFrame) -> None:
    first = runs.iloc[0]
    readout = READOUTS.get(first["readout"])
    style = {
        "label": first["series"],
        "color": readout.colour if readout else None,
        "linestyle": START_LINES.get(first["detail"], readout.line if readout else "-"),
    }
    by_points = 100 * runs.groupby("points")["accuracy"].agg(["mean", "std"]).fillna(0)
    if readout and not readout.has_points:  # a level for all of them
        panel.axhline(by_points["mean"].iloc[0], **style)
        return
    middle, deviation = by_points["mean"], by_points["std"]
    panel.plot(middle.index, middle, marker="o", markersize=4, **style)
    # A deviation may reach beyond 100 %, an accuracy may not.
    high = (middle + deviation).clip(upper=100)
    panel.fill_between(
        middle.index, middle - deviation, high, alpha=0.15, color=style["color"]
    )
