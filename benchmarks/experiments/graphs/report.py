"""The page of the graph benchmark: its message, tables and figure."""

from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean, median

import pandas as pd

from benchmarks.engine.pages import Claim, commits
from benchmarks.engine.records import Record
from benchmarks.engine.statistics import critical_difference, difference
from benchmarks.engine.tables import markdown
from benchmarks.experiments.graphs.cells import (
    average_ranks,
    comparable,
    goodness,
    of_tests,
    score,
    sign,
    title,
    wide,
)
from benchmarks.experiments.graphs.effects import (
    BEST_PLAIN,
    BEST_RIVAL,
    counts,
    draw,
    effects,
    effects_table,
    overlap,
)
from benchmarks.experiments.graphs.trials import trials
from benchmarks.readouts import label

ALT = "Less error than with mean and max pooling"
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
    """Scores and ranks, or the trials, for a terminal."""
    if not of_tests(records):
        return trials(records)
    table = comparable(of_tests(records))
    return NOTHING if table.empty else _scores(table)


def message(found: Mapping[str, list[Record]]) -> str:
    """What the comparison says, in a sentence, and its differences."""
    table = _sized(found.get("readouts", []))
    heads = _heads(table)
    if not heads:
        return ""
    ratios = _epoch_ratios(table)
    texts = [
        f"{label(readout)} {_verdict(effect)} An epoch takes {ratios[readout]} the "
        f"time of one with mean pooling."
        for readout, effect in heads.items()
    ]
    folds = table.groupby("dataset", sort=False)["seed"].nunique()
    texts = [
        f"**{texts[0]}**",
        *texts[1:],
        f"Folds or seeds: {', '.join(f'{d} {n}' for d, n in folds.items())}.",
        f"![{ALT}](readouts.png)",
        LEGEND,
    ]
    for readout, effect in heads.items():
        texts += [f"{label(readout)}:", effects_table(effect)]
    return "\n\n".join(texts)


def _sized(records: list[Record]) -> pd.DataFrame:
    """With the size for all, where there are enough seeds for an interval."""
    table = comparable(of_tests(records, with_size=True))
    if table.empty:
        return table
    return table[table.groupby("dataset")["seed"].transform("nunique") > 2]


def _heads(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """How four heads and one differ from their rivals."""
    names = set() if table.empty else set(table["readout"])
    heads = ("gswe_heads4", "gswe_heads1")
    if not {"mean", "sum", "max", *heads} <= names:
        return {}
    found = {readout: effects(table, readout) for readout in heads}
    return {readout: effect for readout, effect in found.items() if len(effect)}


def _verdict(found: pd.DataFrame) -> str:
    texts, number, wins = [], found["dataset"].nunique(), 0
    for which in ("mean", BEST_PLAIN, BEST_RIVAL):
        ahead, behind = counts(found, which)
        wins += len(ahead)
        texts.append(
            f"ahead of {which} on {len(ahead)} of {number} data sets"
            f"{_listed(ahead)}, behind on {len(behind)}{_listed(behind)}"
        )
    start = "is" if wins else "does not win: it is"
    return f"{start} significantly {'; '.join(texts)}."


def _listed(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def part(config: str, records: list[Record], folder: Path) -> str:
    if records and not of_tests(records):
        return trials(records)
    records = of_tests(records)
    is_sized = bool(of_tests(records, with_size=True))
    table = _sized(records) if is_sized else comparable(records)
    origin = f"{len(records)} runs, commit {commits(records)}."
    if table.empty:
        return f"{origin}\n\n{NOTHING}"
    if heads := _heads(table) if is_sized else {}:
        draw(heads, folder / f"{config}.png")
    texts = [origin, _scores(table)]
    texts += _anchors(table) if is_sized else _power(table)
    texts.append(_protocols(table))
    plain = comparable(of_tests(records, with_size=False))
    if is_sized and not plain.empty:
        texts += ["The same without the size, for all:", _scores(plain)]
    return "\n\n".join(texts)


def _ranks(table: pd.DataFrame, metric: str = "test") -> pd.Series:
    """The average rank of each readout that all data sets have: 1 for the best."""
    number = table["dataset"].nunique()
    counts = table.groupby("readout")["dataset"].nunique()
    scores = wide(table, metric, goodness)
    return average_ranks(scores[[c for c in scores if counts[c] == number]])


def _by_readout(table: pd.DataFrame) -> str:
    return markdown(table.rename(index=label).rename_axis("readout").reset_index())


def _epoch_ratios(table: pd.DataFrame) -> pd.Series:
    """The time of an epoch in multiples of that with mean pooling."""
    seconds = wide(table, "epoch_seconds", lambda _, values: median(values))
    ratios = seconds.div(seconds["mean"], axis=0)
    return ratios.agg(lambda column: f"{geometric_mean(column.dropna()):.2f}x")


def _scores(table: pd.DataFrame) -> str:
    """Scores, ranks, parameters and the time of an epoch, a row per readout."""
    texts, values = wide(table, "test", score), wide(table, "test", goodness)
    is_best = values.eq(values.max(axis=1), axis=0)
    shown = texts.where(~is_best, "**" + texts + "**").rename(title).T
    ranks, number = _ranks(table), table["dataset"].nunique()
    shown["average rank"] = ranks.map("{:.2f}".format)
    shown["on validation parts"] = _ranks(table, "valid").map("{:.2f}".format)
    parameters = wide(table, "parameters", lambda _, v: v.iloc[0]).median()
    shown["parameters"] = parameters.map("{:,.0f}".format)
    if "mean" in ranks:
        shown["epoch"] = _epoch_ratios(table)
    shown = shown.loc[ranks.reindex(shown.index).sort_values(kind="stable").index]
    least = critical_difference(len(ranks), number)
    return (
        f"Test scores, mean ± standard deviation over folds or seeds, the best of a "
        f"data set in bold; average rank over {number} data sets of the readouts that "
        f"all of them have (less than {least:.2f} apart they do not differ at the 5 % "
        f"level, Nemenyi's test); parameters (median); processor seconds of a training "
        f"epoch relative to mean pooling (geometric mean):\n\n{_by_readout(shown)}"
    )


def _anchors(table: pd.DataFrame) -> list[str]:
    rows = []
    for dataset, scores in wide(table, "test", score).iterrows():
        if dataset in ANCHORS:
            anchor = score(dataset, [ANCHORS[dataset]])
            rows.append((title(dataset), anchor, scores["mean"], scores["sum"]))
    columns = ["data set", "published GIN", "our mean", "our sum"]
    return [
        "What is published for the same kind of network, and ours:",
        markdown(pd.DataFrame(rows, columns=columns)),
    ]


def _power(table: pd.DataFrame) -> list[str]:
    """Which difference to mean pooling each data set could have shown."""
    rows, ranks = [], _ranks(table, "valid")
    ours = ranks[ranks.index.str.startswith("gswe")]
    if ours.empty or "mean" not in ranks:
        return []
    for dataset in wide(table, "test", score).index:
        runs = table[table["dataset"] == dataset]
        scores = 100 * runs.pivot(index="seed", columns="readout", values="test")
        if len(scores) > 2:
            pair = scores[ours.idxmin()], scores["mean"]
            least = difference(*pair, 1, overlap(dataset)).detectable()
            means = sign(dataset) * scores.mean()
            most = means.max() - means["mean"]
            rows.append((dataset, len(scores), f"{most:.1f}", f"{least:.1f}"))
    columns = ["data set", "folds or seeds", "best readout ahead of mean", "detectable"]
    return [
        "By how much the best readout was ahead of mean pooling, and the difference "
        "that such a comparison would find four times out of five at the 5 % level, "
        "from how much differences vary between folds, in points (RMSE in hundredths). "
        "MUTAG and IMDB would need many more graphs than there are.",
        markdown(pd.DataFrame(rows, columns=columns).astype(str)),
    ]


def _protocols(table: pd.DataFrame) -> str:
    keys = ["epochs", "batch_size", "hidden", "layers", "elements"]
    groups = table.groupby("dataset")
    shown = groups.first().loc[wide(table, "test", score).index, keys]
    shown = shown.map(lambda value: "" if pd.isna(value) else f"{value:g}")
    shown.insert(0, "folds or seeds", groups["seed"].nunique().astype(str))
    seconds = wide(table, "epoch_seconds", lambda _, s: f"{median(s):.2g}")
    if "mean" in seconds:
        shown["seconds of an epoch with mean"] = seconds["mean"]
    shown.columns = [column.replace("_", " ") for column in shown.columns]
    cells = wide(table, "cell", lambda _, values: values.iloc[0])
    text = f"What was run:\n\n{markdown(shown.rename_axis('data set').reset_index())}"
    if cells.stack().any():
        text += f"\n\nWhat validation chose:\n\n{_by_readout(cells.T)}"
    return text


def claims(records: Mapping[str, list[Record]]) -> list[Claim]:
    """The page opens with its message instead."""
    return []
