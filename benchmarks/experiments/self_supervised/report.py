"""Learning without labels beside its controls (paper, figure 3)."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.engine.pages import NOT_WORSE, Claim, commits, spread
from benchmarks.engine.records import Record
from benchmarks.engine.statistics import Difference, difference
from benchmarks.engine.tables import markdown, mean_and_deviation, save
from benchmarks.experiments.self_supervised.cells import HOW, UNTRAINED, cells, groups
from benchmarks.experiments.self_supervised.frozen import LABELS
from benchmarks.experiments.self_supervised.run import Run
from benchmarks.experiments.trials import trials
from benchmarks.readouts import label

NAMES = {
    "set_circles": "Set-Circles",
    "set_circles_noisy": "noisy circles",
    "point_cloud_mnist": "Point Cloud MNIST",
}
#: Whom with whom, and what may be lacking, in points.
COMPARED = (
    ("gswe_linear", "pma", 0.0),
    ("gswe_linear", "pma_near_origin", 0.0),
    ("gswe_linear", "mean", 0.0),
    ("gswe_linear", "gswe_barycentric", NOT_WORSE),
    ("gswe_linear", "sliced", 0.0),
    ("gswe_heads4", "mean", 0.0),
    ("gswe_heads4", "pma_near_origin", 0.0),
    ("gswe_heads4", "sliced", 0.0),
)
Records = Mapping[str, list[Record]]


def summary(records: list[Record]) -> str:
    """The accuracies, for a terminal."""
    return "\n\n".join(_accuracies(table) for _, table in groups(cells(records)))


def _accuracies(table: pd.DataFrame) -> str:
    """A row per series; what was measured of it in columns."""
    wide = table.pivot_table(
        index="series", columns="how", values="accuracy", aggfunc=mean_and_deviation
    )
    wide = wide.reindex(table["series"].unique())
    wide = wide[[how for how in (UNTRAINED, *HOW.values()) if how in wide]]
    if "SimCLR" in wide:
        runs = table[table["how"] == "SimCLR"]
        learned = runs["train_loss"] < _chance(runs["batch_size"])
        # Marked where fewer than half of the runs did.
        failed = learned.groupby(runs["series"]).mean() < 0.5
        wide.loc[failed[failed].index, "SimCLR"] += " †"
        loss = runs.groupby("series")["train_loss"].median().map("{:.2f}".format)
        wide["SimCLR loss"] = loss
    if table["view_share"].notna().any():
        share = table.groupby(["series", "how"])["view_share"].median().unstack()
        for how in (how for how in HOW.values() if how in wide and how in share):
            wide[f"{how} views"] = share[how].map("{:.2f}".format, na_action="ignore")
    for name in ("logistic", "perceptron"):
        if table[name].notna().any():
            wide[name] = table.groupby("series")[name].agg(mean_and_deviation)
    if table["embed_seconds"].notna().any():
        wide = wide.rename(columns={UNTRAINED: "1-NN"})
        seconds = table.groupby("series")["embed_seconds"].median()
        wide["seconds to embed"] = seconds.map("{:.2f}".format)
    else:
        parameters = table.groupby("series")["parameters"].first()
        wide["parameters"] = parameters.map("{:,.0f}".format)
    return markdown(wide.rename_axis(index="readout", columns=None).reset_index())


def _chance(batch_size: pd.Series) -> pd.Series:
    return np.log(2 * batch_size - 1)


def part(name: str, records: list[Record], folder: Path) -> str:
    """A table for each protocol, the first with a figure, then the trials."""
    parts = []
    for number, (protocol, table) in enumerate(groups(cells(records))):
        seeds = table.groupby(["series", "how"])["seed"].nunique()
        caption = (
            f"1-NN accuracy in % on test sets, mean ± standard deviation over seeds "
            f"({spread(seeds)} a cell); {len(table)} runs ({protocol}; commit "
            f"{commits(table.to_dict('records'))})."
        )
        if "SimCLR" in set(table["how"]):
            chance = _chance(table.loc[table["epochs"] > 0, "batch_size"]).iloc[0]
            caption += (
                f" The loss of SimCLR is that of the last epoch, in the median; by "
                f"chance it is {chance:.2f}. † most runs stayed above: **they have not "
                f"learned**."
            )
        if table["view_share"].notna().any():
            caption += (
                " *Views*: of the variance of the embeddings, the share that is "
                "between two views of a set, in the median."
            )
        if number == 0 and table["how"].nunique() > 1:
            draw(table, folder / f"{name}.png")
            parts.append(f"![1-NN accuracy, untrained and trained]({name}.png)")
        parts += [caption, _accuracies(table)]
    parts.append(trials(records, Run, share="view_share"))
    return "\n\n".join(filter(None, parts))


def _main(found: Records) -> Iterator[tuple[str, pd.DataFrame]]:
    """The table of each data set that has the most kinds of cells."""
    for name in NAMES:
        of_config = groups(cells(found[name])) if name in found else []
        if of_config:
            yield name, of_config[0][1]


def message(found: Records) -> str:
    """What a reader should know, computed."""
    lines, rows = [], []
    for records in found.values():
        table = cells(records)
        if table["perceptron"].notna().any():
            lines.append(_without_training(table[table["perceptron"].notna()]))
    for name, table in _main(found):
        means = table.groupby(["series", "how"])["accuracy"].mean()
        trained = means[means.index.get_level_values("how") != UNTRAINED]
        controls = means.drop(trained.index).droplevel("how")
        own = trained.index.get_level_values("series").map(controls)
        above, total = int((trained.to_numpy() > own).sum()), int(own.notna().sum())
        text = f"**{NAMES[name]}**: {above} of {total} trained cells are above their "
        text += "untrained network"
        sliced = controls[[s for s in controls.index if s.startswith("no network: sl")]]
        if len(sliced):
            text += (
                f", {int((trained > sliced.max()).sum())} of {len(trained)} above the "
                f"sliced embedding without a network ({100 * sliced.max():.1f} %)"
            )
        lines.append(f"- {text}.")
        last = table[table["how"] != UNTRAINED].groupby(["readout", "how"])["points"]
        for readout in dict.fromkeys(table.loc[table["epochs"] > 0, "readout"]):
            runs = table[table["readout"] == readout]
            runs = runs[runs["points"] == last.max()[readout].min()]
            found_means = runs.groupby("how")["accuracy"].mean() * 100
            shown = found_means.map("{:.1f}".format)
            series = runs["series"].iloc[0]
            rows.append({"data": NAMES[name], "readout": series, **shown})
    if not rows:
        return "\n".join(lines)
    columns = ["data", "readout", UNTRAINED, *HOW.values()]
    wide = pd.DataFrame(rows).reindex(columns=columns)
    return "\n\n".join(
        [
            "\n".join(lines),
            "1-NN accuracy in % at the largest size that was trained, mean over seeds:",
            markdown(wide),
        ]
    )


def _without_training(table: pd.DataFrame) -> str:
    sliced = table[table["readout"] == "sliced"]
    if sliced.empty:
        return ""
    few, best = sliced.iloc[0], sliced.loc[sliced["perceptron"].idxmax()]
    scores = 100 * few[["accuracy", "logistic", "perceptron"]].astype(float)
    return (
        f"- **Without training, sorting is enough on Point Cloud MNIST**: quantiles "
        f"in fixed directions ({few['directions']:.0f} x {few['points']:.0f} numbers a "
        f"set; {few['embed_seconds']:.1f} processor seconds for all 70,000 sets) give "
        f"{scores.iloc[0]:.1f} % by 1-NN, {scores.iloc[1]:.1f} % by logistic "
        f"regression and {scores.iloc[2]:.1f} % by a small perceptron; "
        f"{best['directions']:.0f} x {best['points']:.0f} give "
        f"{100 * best['perceptron']:.1f} %."
    )


def claims(found: Records) -> list[Claim]:
    """What the paper says of figure 3, and what the controls say."""
    listed = []
    for name, table in _main(found):
        for how in HOW.values():
            runs = table[table["how"].isin([how]) | table["readout"].isin(LABELS)]
            accuracy = {key: _by_seed(own) for key, own in runs.groupby("readout")}
            untrained = table[table["how"] == UNTRAINED].groupby("readout")
            before = {key: _by_seed(own) for key, own in untrained}
            data = f"{NAMES[name]}, {how}"
            for ours, theirs, margin in COMPARED:
                if {ours, theirs} <= set(accuracy):
                    verb = "is not worse than" if margin else "beats"
                    text = f"{label(ours)} {verb} {LABELS.get(theirs, label(theirs))}"
                    effect = _difference(accuracy[ours], accuracy[theirs])
                    listed.append(Claim(text, data, effect, margin))
            for readout in ("mean", "pma", "gswe_linear", "gswe_heads4"):
                if readout in accuracy and readout in before:
                    text = f"training improves {label(readout)}"
                    effect = _difference(accuracy[readout], before[readout])
                    listed.append(Claim(text, data, effect))
    return listed


def _by_seed(runs: pd.DataFrame) -> pd.DataFrame:
    """A column per number of points; one point only if there is no other."""
    wide = runs.pivot_table(index="seed", columns="points", values="accuracy")
    return wide.drop(columns=1, errors="ignore") if wide.shape[1] > 1 else wide


def _difference(ours: pd.DataFrame, theirs: pd.DataFrame) -> Difference | None:
    """Averaged over the numbers of points that both have, if they share some; a control
    with a single seed stands for all."""
    shared = ours.columns.intersection(theirs.columns)
    if len(shared):
        ours, theirs = ours[shared], theirs[shared]
    one, other = (wide.mean(axis=1, skipna=False) for wide in (ours, theirs))
    if len(other) == 1 and len(one) > 1:
        other = pd.Series(other.iloc[0], index=one.index)
    return difference(one, other)


def draw(table: pd.DataFrame, path: Path) -> None:
    """A line per series: where the network begins, where training takes it."""
    from matplotlib.figure import Figure

    names = list(table["series"].unique())[::-1]
    figure = Figure(figsize=(7, 1 + 0.27 * len(names)), layout="constrained")
    axis = figure.subplots()
    style = {UNTRAINED: ("o", "0.6"), "SimCLR": ("^", "C0"), "SimSiam": ("s", "C1")}
    for how, (marker, colour) in style.items():
        runs = table[table["how"] == how].groupby("series")["accuracy"]
        found = 100 * runs.agg(["mean", "std"]).fillna(0)
        if len(found):
            places = [names.index(series) for series in found.index]
            options = {"marker": marker, "color": colour, "linestyle": "", "alpha": 0.8}
            text = how if how != UNTRAINED else "untrained, or no network"
            axis.errorbar(
                found["mean"], places, xerr=found["std"], label=text, **options
            )
    axis.set_yticks(range(len(names)), names)
    axis.set_xlim(right=101)
    axis.set_xlabel("1-NN accuracy in %, mean and deviation over seeds")
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    save(figure, path)
