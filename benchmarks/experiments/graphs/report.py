"""The page of the graph benchmark: its message, tables and figure."""

from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean, median

import pandas as pd

from benchmarks.engine.pages import origin
from benchmarks.engine.records import Record, frame
from benchmarks.engine.statistics import (
    Difference,
    critical_difference,
    difference,
    holm,
)
from benchmarks.engine.tables import bold_best, markdown
from benchmarks.experiments.graphs.cells import (
    comparable,
    overlap,
    score,
    title,
    unit,
    wide,
)
from benchmarks.experiments.graphs.controls import NAMES
from benchmarks.experiments.graphs.data import score_sign
from benchmarks.experiments.graphs.power import power
from benchmarks.experiments.graphs.run import Run
from benchmarks.experiments.trials import trials
from benchmarks.readouts import colour, label

LEVEL = 0.05
HEADS = ("gswe_heads4", "gswe_heads1")
PLAIN = ("mean", "sum", "max")
BEST_PLAIN, BEST_RIVAL = "best of mean, sum, max", "best rival"
LEGEND = (
    "Differences to rivals, paired by fold or seed, in points (RMSE in its units); more"
    " is better throughout. Intervals of 95 %, for folds corrected for the training "
    "graphs that they share (Nadeau and Bengio); in bold what is significant at 5 % "
    "after Holm's correction over the data sets. The best rival is the best on "
    "validation parts, of all that are no heads."
)
NOTHING = "No data set has been run with several readouts yet."
#: What a GIN reached elsewhere: under the fair comparison (Errica et al., 2020), whose
#: splits are ours, too, and in the tables of OGB (Hu et al., 2020).
ANCHORS = {
    "ENZYMES": 0.596,
    "PROTEINS": 0.733,
    "NCI1": 0.800,
    "REDDIT-BINARY": 0.899,
    "ogbg-molhiv": 0.7558,
}


def summary(records: list[Record]) -> str:
    """Scores, or the trials, for a terminal."""
    tables = [comparable(records, with_size) for with_size in (True, False)]
    parts = [_scores(table) for table in tables if len(table)]
    return "\n\n".join(parts) or _trials(records) or NOTHING


def part(config: str, records: list[Record], folder: Path) -> str:
    """Scores and settings, first those with the size for all; or the trials."""
    tested, sized = frame(records, Run, "test"), _sized(records)
    if tested.empty:
        return _trials(records) or NOTHING
    plain = comparable(records, with_size=False)
    if len(sized):
        texts = [_scores(sized), *_anchors(sized), _settings(sized)]
        if len(plain):
            texts += ["The same without the size, for all:", _scores(plain)]
        if len(effects := _effects(sized)):
            draw(effects, folder / f"{config}.png")
    elif len(plain):
        texts = [_scores(plain), *power(plain), _settings(plain)]
    else:
        texts = [NOTHING]
    return "\n\n".join([f"{origin(tested)}.", *texts])


def _trials(records: list[Record]) -> str:
    def valid(runs: pd.DataFrame) -> str:
        return score(runs["dataset"].iloc[0], runs["valid"])

    return trials(records, Run, valid, "Accuracy or ROC-AUC in %, or RMSE,")


def _sized(records: list[Record]) -> pd.DataFrame:
    """With the size for all, where there are enough seeds for an interval."""
    table = comparable(records, with_size=True)
    return table[table.groupby("dataset")["seed"].transform("nunique") > 2]


def message(found: Mapping[str, list[Record]]) -> str:
    """What the comparison says, in a sentence, and its differences."""
    table = _sized(found.get("readouts", []))
    effects = _effects(table)
    if effects.empty:
        return ""
    texts, tables, ratios = [], [], _relative_epochs(table)
    for readout, of_readout in effects.groupby("readout", sort=False):
        text = f"{label(readout)}{_verdict(of_readout)}"
        if readout in ratios:
            time = f"{ratios[readout]} the time of one with mean pooling"
            text += f" An epoch takes {time}."
        texts.append(f"**{text}**")
        tables += [f"{label(readout)}:", _effects_table(of_readout)]
    folds = table.groupby("dataset", sort=False)["seed"].nunique()
    texts += [
        *_without_training(table),
        f"Folds or seeds: {', '.join(f'{d} {n}' for d, n in folds.items())}.",
        "![Less error than with mean and max pooling](readouts.png)",
        LEGEND,
    ]
    return "\n\n".join(texts + tables)


def _without_training(table: pd.DataFrame) -> list[str]:
    """Where training a network bought nothing."""
    controls = table[table["readout"].isin(NAMES)]
    if controls.empty:
        return []
    scores = wide(table, "test", lambda d, values: score_sign(d) * values.mean())
    chosen = controls.groupby(["dataset", "readout"])["good"].mean().unstack()
    found = {readout: [] for readout in ("mean", *HEADS)}
    for dataset, control in chosen.idxmax(axis=1).items():
        for readout in found:
            if scores.loc[dataset, control] > scores.loc[dataset, readout]:
                found[readout].append(dataset)
    less = "; than ".join(
        f"{label(readout)} on {', '.join(where) or 'none'}"
        for readout, where in found.items()
    )
    return [f"A control that trains no network scores higher than {less}."]


def _effects(table: pd.DataFrame) -> pd.DataFrame:
    """How heads differ from their rivals: a row per head, data set and rival; positive
    is better, ``p`` is Holm's over the data sets."""
    rows = []
    for dataset, runs in table.groupby("dataset", sort=False):
        scores = score_sign(dataset) * runs.pivot(
            index="seed", columns="readout", values="test"
        )
        if not {*PLAIN, *HEADS} <= set(scores):
            continue
        valid = runs.groupby("readout")["good"].mean()
        valid = valid.drop(list(NAMES), errors="ignore")
        is_head = valid.index.str.startswith("gswe_heads")
        rivals = {
            "mean": "mean",
            "max": "max",
            BEST_PLAIN: valid[valid.index.isin(PLAIN)].idxmax(),
            BEST_RIVAL: valid[~is_head].idxmax(),
        }
        for readout in HEADS:
            for which, rival in rivals.items():
                error = abs((score_sign(dataset) > 0) - scores[rival].mean())
                pair = scores[readout], scores[rival]
                found = difference(*pair, 1, overlap(dataset))
                rows.append((readout, which, dataset, rival, error, *found))
    columns = ["readout", "which", "dataset", "rival", "error", *Difference._fields]
    effects = pd.DataFrame(rows, columns=columns)
    effects["p"] = effects.groupby(["readout", "which"])["p"].transform(holm)
    return effects


def _verdict(found: pd.DataFrame) -> str:
    def listed(names: pd.Series) -> str:
        return f"{len(names)} ({', '.join(names)})" if len(names) else "0"

    texts, number, wins = [], found["dataset"].nunique(), 0
    for which in ("mean", BEST_PLAIN, BEST_RIVAL):
        clear = found[(found["which"] == which) & (found["p"] < LEVEL)]
        wins += int((clear["mean"] > 0).sum())
        ahead = listed(clear.loc[clear["mean"] > 0, "dataset"])
        behind = listed(clear.loc[clear["mean"] < 0, "dataset"])
        texts.append(f"ahead of {which} on {ahead} and behind on {behind}")
    over = f"over {number} data sets"
    start = f", {over}, is" if wins else f" does not win: {over} it is"
    return f"{start} significantly {'; '.join(texts)}."


def _effects_table(found: pd.DataFrame) -> str:
    cells = {}
    for row in found.itertuples():
        scale, digits = (1, 3) if unit(row.dataset)[0] == 1 else (100, 1)
        text = f"{scale * row.mean:+.{digits}f} ± {scale * row.half:.{digits}f}"
        if row.which not in PLAIN:
            text += f" ({label(row.rival)})"
        cells[row.dataset, f"against {row.which}"] = (
            f"**{text}**" if row.p < LEVEL else text
        )
    return markdown(pd.Series(cells).unstack(sort=False), "data set")


def draw(effects: pd.DataFrame, path: Path) -> None:
    """Less error than mean and max have, in per cent, so that all units are one."""
    from benchmarks.engine.figures import intervals

    found = effects[effects["which"].isin(PLAIN)]
    table = pd.DataFrame(
        {
            "panel": "against " + found["which"] + " pooling",
            "name": found["dataset"],
            "series": found["readout"].map(label),
            "mean": 100 * found["mean"] / found["error"],
            "half": 100 * found["half"] / found["error"],
            "is_clear": found["p"] < LEVEL,
        }
    )
    colours = {label(name): colour(name) for name in HEADS}
    intervals(table, colours, path, "less error, % (right is better)")


def _relative_epochs(table: pd.DataFrame) -> pd.Series:
    ratios = wide(table, "epoch_ratio", lambda _, values: values.median())
    ratios = ratios.dropna(axis=1, how="all")
    return ratios.agg(lambda column: f"{geometric_mean(column.dropna()):.2f}x")


def _scores(table: pd.DataFrame) -> str:
    """Scores, ranks, parameters and the time of an epoch, a row per readout."""
    texts = wide(table, "test", score)
    # As they are printed, so that what looks equal is.
    means = wide(
        table, "test", lambda d, v: score_sign(d) * float(score(d, v).split()[0])
    )
    shown = bold_best(texts, means).rename(title).T
    learned = means.drop(columns=list(NAMES), errors="ignore").dropna(axis=1)
    ranks = learned.rank(axis=1, ascending=False).mean()
    order, caption = shown.index, ""
    if len(ranks) > 1:
        shown["average rank"] = ranks.map("{:.2f}".format)
        order = ranks.reindex(order).sort_values(kind="stable").index
        least = critical_difference(len(ranks), len(means))
        caption = (
            f"average rank of the readouts that learn, on all data sets (less than "
            f"{least:.2f} apart they do not differ at the 5 % level, Nemenyi's test); "
        )
    parameters = wide(table, "parameters", lambda _, v: v.iloc[0]).median()
    shown["parameters"] = parameters.map("{:,.0f}".format)
    if "mean" in shown.index:
        shown["epoch"] = _relative_epochs(table)
    return (
        f"Test scores, mean ± standard deviation over folds or seeds, the best of a "
        f"data set in bold; {caption}parameters (median); processor seconds of a "
        f"training epoch relative to mean pooling (geometric mean):\n\n"
        f"{markdown(shown.loc[order].rename(index=label), 'readout')}"
    )


def _anchors(table: pd.DataFrame) -> list[str]:
    ours = wide(table, "test", score)
    ours = ours.loc[ours.index.isin(list(ANCHORS)), ["mean", "sum"]].add_prefix("our ")
    published = [score(dataset, [ANCHORS[dataset]]) for dataset in ours.index]
    ours.insert(0, "published GIN", published)
    text = "What is published for the same kind of network, and ours:"
    return [text, markdown(ours.rename(index=title), "data set")]


def _settings(table: pd.DataFrame) -> str:
    """Those of all readouts of a data set, and those that each has of its own."""
    keys = ["epochs", "batch_size", "hidden", "layers", "elements"]
    groups = table[~table["readout"].isin(NAMES)].groupby("dataset", sort=False)
    shown = groups[keys].agg(
        lambda values: " or ".join(f"{v:g}" for v in sorted(values.dropna().unique()))
    )
    shown.insert(0, "folds or seeds", groups["seed"].nunique().astype(str))
    seconds = wide(table, "epoch_seconds", lambda _, s: f"{median(s):.2g}")
    if "mean" in seconds:
        shown["seconds of an epoch with mean"] = seconds["mean"]
    shown.columns = [column.replace("_", " ") for column in shown.columns]
    text = f"What was run:\n\n{markdown(shown, 'data set')}"
    cells = wide(table, "cell", lambda _, values: values.iloc[0]).rename(columns=label)
    if cells.stack().any():
        text += f"\n\nWhat validation chose:\n\n{markdown(cells.T, 'readout')}"
    return text
