"""Learning without labels beside its controls (paper, figure 3)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.engine.pages import NOT_WORSE, Claim, comparison, origin, spread
from benchmarks.engine.records import Record, frame
from benchmarks.engine.statistics import Difference, difference
from benchmarks.engine.tables import cells, markdown, mean_and_deviation
from benchmarks.experiments.self_supervised.frozen import WITHOUT_NETWORK
from benchmarks.experiments.self_supervised.run import Run
from benchmarks.experiments.trials import accuracy, trials
from benchmarks.readouts import READOUTS, by_readout, label

NAMES = {
    "set_circles": "Set-Circles",
    "set_circles_noisy": "noisy circles",
    "point_cloud_mnist": "Point Cloud MNIST",
}
UNTRAINED, SIMCLR, SIMSIAM = "untrained", "SimCLR", "SimSiam"
HOW = {"simclr": SIMCLR, "simsiam": SIMSIAM}
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
#: What differs between the cells of a table; what is the same for all that was trained,
#: but for the rate, of which each loss may have its own; what a control shares with it.
AXES = ("readout", "loss", "points", "start", "seed", "directions")
PROTOCOL = [name for name in Run.__dataclass_fields__ if name not in AXES]
ALIKE = [name for name in PROTOCOL if name != "learning_rate"]
DATA = ["dataset", "train_sets", "test_sets", "evaluate", "unit_scale", "draw_data"]
#: What not all runs have measured.
MEASURED = ("train_loss", "view_share", "embed_seconds", "logistic", "perceptron")
Records = Mapping[str, list[Record]]


def runs_on_test(records: list[Record]) -> pd.DataFrame:
    """``series`` is the row of a run in a table, ``how`` its column."""
    table = frame(records, Run, "test")
    table = table.reindex(columns=dict.fromkeys([*table, *MEASURED]))
    table["how"] = table["loss"].map(HOW).where(table["epochs"] > 0, UNTRAINED)
    table["series"] = [label(run.readout) + _size(run) for run in table.itertuples()]
    cells = table.groupby([*ALIKE, "readout", "loss"], dropna=False)
    for name in ("start", "learning_rate"):
        text = f", {name.replace('_', ' ')} " + table[name].map("{:g}".format)
        table["series"] += text.where(cells[name].transform("nunique") > 1, "")
    return by_readout(table.sort_values(["points", "directions"]), WITHOUT_NETWORK)


def _size(run: tuple) -> str:
    if run.readout == "sliced":
        return f", {run.directions} x {run.points}"
    has_points = run.readout in READOUTS and READOUTS[run.readout].uses("points")
    return f", {run.points}" if has_points else ""


def protocols(records: list[Record]) -> list[pd.DataFrame]:
    """What was trained alike, each with its controls; those with controls first, then
    the most kinds of cells. Controls alone, if nothing was trained."""
    table, found = runs_on_test(records), []
    is_control = table["epochs"] == 0
    for _, own in table[~is_control].groupby(ALIKE, dropna=False):
        fits = table["backbone"].isin([own["backbone"].iloc[0], "none"])
        for name in DATA:
            fits &= table[name].isin(own[name])
        found.append(table[(is_control & fits) | table.index.isin(own.index)])
    found = found or [runs for _, runs in table.groupby(DATA, dropna=False)]

    def rank(table: pd.DataFrame) -> tuple:
        kinds = table.groupby(["series", "how"]).ngroups
        return UNTRAINED not in set(table["how"]), -kinds, -len(table)

    return sorted(found, key=rank)


def _settings(table: pd.DataFrame) -> str:
    """What is set; ``/`` between the values of the two losses."""
    trained = table[table["epochs"] > 0]
    runs = table[DATA] if trained.empty else trained[PROTOCOL]
    values = {name: runs[name].dropna().unique() for name in runs}
    return ", ".join(
        f"{name}={'/'.join(f'{v:g}' if not isinstance(v, str) else v for v in found)}"
        for name, found in values.items()
        if any(isinstance(v, str) or v for v in found)
    )


def summary(records: list[Record]) -> str:
    """The accuracies, for a terminal."""
    return "\n\n".join(map(_accuracies, protocols(records)))


def _accuracies(table: pd.DataFrame) -> str:
    """A row per series; what was measured of it in columns."""
    wide = cells(table, "series", "how", "accuracy")
    wide = wide[[how for how in (UNTRAINED, *HOW.values()) if how in wide]]
    medians = table.groupby(["how", "series"])[list(MEASURED)].median()
    digits = "{:.2f}".format  # of what diverged: nan
    if SIMCLR in wide:
        runs = table[table["how"] == SIMCLR]
        learned = runs["train_loss"] < _chance(runs["batch_size"])
        failed = learned.groupby(runs["series"]).mean() < 0.5
        wide.loc[failed[failed].index, SIMCLR] += " †"
        wide["SimCLR loss"] = medians.loc[SIMCLR, "train_loss"].map(digits)
    if table["view_share"].notna().any():
        for how in (how for how in HOW.values() if how in wide):
            wide[f"{how} views"] = medians.loc[how, "view_share"].dropna().map(digits)
    if table["embed_seconds"].isna().all():
        parameters = table.groupby("series")["parameters"].first()
        wide["parameters"] = parameters.map("{:,.0f}".format)
    else:
        wide = wide.rename(columns={UNTRAINED: "1-NN"})
        for name in ("logistic", "perceptron"):
            wide[name] = table.groupby("series")[name].agg(mean_and_deviation)
        wide["seconds to embed"] = medians.loc[UNTRAINED, "embed_seconds"].map(digits)
    return markdown(wide, "readout")


def _chance(batch_size: pd.Series) -> pd.Series:
    return np.log(2 * batch_size - 1)


def part(name: str, records: list[Record], folder: Path) -> str:
    """A table for each protocol, the first with a figure, then the trials."""
    parts = []
    for number, table in enumerate(protocols(records)):
        seeds = table.groupby(["series", "how"])["seed"].nunique()
        caption = (
            f"1-NN accuracy in % on test sets, mean ± standard deviation over seeds "
            f"({spread(seeds)} a cell); {origin(table)} ({_settings(table)})."
        )
        if SIMCLR in set(table["how"]):
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
    return "\n\n".join(filter(None, [*parts, trials(records, Run, _with_share)]))


def _with_share(runs: pd.DataFrame) -> str:
    share = runs["view_share"].median() if "view_share" in runs else np.nan
    return accuracy(runs) + (f" ({share:.2f})" if share == share else "")


def _main(found: Records) -> dict[str, pd.DataFrame]:
    """The first protocol of each data set."""
    parts = {name: protocols(found[name]) for name in NAMES if name in found}
    return {name: tables[0] for name, tables in parts.items() if tables}


def message(found: Records) -> str:
    """How much of what was trained is above its controls."""
    lines = [_without_training(runs_on_test(records)) for records in found.values()]
    for name, table in _main(found).items():
        means = table.groupby(["how", "series"])["accuracy"].mean()
        controls = means.reindex([UNTRAINED], level="how").droplevel("how")
        trained = means.drop(UNTRAINED, errors="ignore").droplevel("how")
        beside = controls.reindex(trained.index)
        text = (
            f"- **{NAMES[name]}**: {(trained > beside).sum()} of "
            f"{beside.notna().sum()} trained cells are above their untrained network"
        )
        sliced = controls[controls.index.str.startswith(label("sliced"))].max()
        if sliced == sliced:
            text += (
                f", {(trained > sliced).sum()} of {len(trained)} above the sliced "
                f"embedding without a network ({100 * sliced:.1f} %)"
            )
        lines.append(f"{text}.")
    return "\n".join(filter(None, lines))


def _without_training(table: pd.DataFrame) -> str:
    sliced = table[(table["readout"] == "sliced") & table["perceptron"].notna()]
    if sliced.empty:
        return ""
    few, best = sliced.iloc[0], sliced.loc[sliced["perceptron"].idxmax()]
    return (
        f"- **Without training, sorting is enough on Point Cloud MNIST**: quantiles "
        f"in fixed directions ({few['directions']} x {few['points']} numbers a "
        f"set; {few['embed_seconds']:.1f} processor seconds for all 70,000 sets) give "
        f"{100 * few['accuracy']:.1f} % by 1-NN, {100 * few['logistic']:.1f} % by "
        f"logistic regression and {100 * few['perceptron']:.1f} % by a small "
        f"perceptron; {best['directions']} x {best['points']} give "
        f"{100 * best['perceptron']:.1f} %."
    )


def claims(found: Records) -> list[Claim]:
    """What the paper says of figure 3, and what the controls say."""
    listed = []
    for name, table in _main(found).items():
        untrained = _by_readout(table[table["how"] == UNTRAINED])
        free = {k: wide for k, wide in untrained.items() if k in WITHOUT_NETWORK}
        for how in HOW.values():
            data = f"{NAMES[name]}, {how}"
            trained = _by_readout(table[table["how"] == how])
            rivals = trained | free
            for ours, theirs, margin in COMPARED:
                if ours in trained and theirs in rivals:
                    effect = _difference(trained[ours], rivals[theirs])
                    names = label(ours), label(theirs)
                    listed.append(comparison(*names, data, effect, margin))
            for readout in ("mean", "pma", "gswe_linear", "gswe_heads4"):
                if readout in trained and readout in untrained:
                    effect = _difference(trained[readout], untrained[readout])
                    text = f"training improves {label(readout)}"
                    listed.append(Claim(text, data, effect))
    return listed


def _by_readout(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Accuracies by seed, a column per number of points; one point only if there is no
    other."""
    found = {}
    for readout, runs in table.groupby("readout"):
        wide = runs.pivot_table(index="seed", columns="points", values="accuracy")
        several = wide.shape[1] > 1
        found[readout] = wide.drop(columns=1, errors="ignore") if several else wide
    return found


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
    """Where each network begins, and where training takes it."""
    from benchmarks.engine.figures import intervals

    found = table.groupby(["series", "how"], sort=False)["accuracy"]
    found = (100 * found.agg(["mean", "std"]).fillna(0)).reset_index()
    found = found.rename(columns={"series": "name", "how": "series", "std": "half"})
    found = found.assign(panel="untrained (or no network) and trained", is_clear=True)
    colours = {UNTRAINED: "0.6", SIMCLR: "C0", SIMSIAM: "C1"}
    intervals(found, colours, path, "1-NN accuracy in %, mean and deviation")
