"""Tables and figures of learning with labels (paper, figures 4 and 5)."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from benchmarks.engine.pages import NOT_WORSE, Claim, comparison, origin, spread
from benchmarks.engine.records import Record, frame
from benchmarks.engine.statistics import Difference, difference
from benchmarks.engine.tables import cells, markdown, mean_and_deviation
from benchmarks.experiments.documents.controls import LOGISTIC, NAMES
from benchmarks.experiments.documents.model import OWN_ARCHITECTURES
from benchmarks.experiments.documents.run import NUM_FOLDS, Run
from benchmarks.experiments.trials import trials
from benchmarks.readouts import READOUTS, by_readout, label

DATASETS = ("twitter", "bbcsport", "classic", "amazon")
GSWE, HEADS, COUNTS = "GSWE, linear", "GSWE, 4 heads", ", word counts"
BEST, FREE = "best form of GSWE", label("parameter_free")
BY_AUTHORS = ", as its authors train it"
REPSET = f"RepSet{BY_AUTHORS}"
#: The best of these series stands for all, in each fold that of the other folds.
FORMS = {BEST: (GSWE, label("gswe_heads1"), HEADS)}
#: Whom with whom, and what may be lacking, in points.
COMPARED = (
    *((BEST, rival, 0.0) for rival in ("PMA", "mean", REPSET)),
    (BEST, "mean", NOT_WORSE),
    *((FREE, rival, 0.0) for rival in ("PMA", "mean", REPSET, label(LOGISTIC), BEST)),
    *((FREE, rival, NOT_WORSE) for rival in ("PMA", "mean")),
    *((GSWE, rival, 0.0) for rival in ("PMA", "mean", "RepSet", "ApproxRepSet")),
    (GSWE, label(LOGISTIC), 0.0),
    (GSWE, "mean", NOT_WORSE),
    *((GSWE + COUNTS, rival, 0.0) for rival in ("mean" + COUNTS, "PMA")),
    (FREE + COUNTS, "mean" + COUNTS, 0.0),
    *((HEADS, rival, 0.0) for rival in ("PMA", "mean", GSWE)),
    (HEADS, "mean", NOT_WORSE),
)
#: Of a test part, in multiples of the training part: folds share training documents.
OVERLAP = 1 / (NUM_FOLDS - 1)
SIZE = ["references", "points"]
#: At which the authors of RepSet and ApproxRepSet train them.
AUTHORS_SIZE = [10, 20]
#: Settings that make a series of their own, where they are not the default.
VARIANTS = ("start", "slicer", "scale", "dropout", "weight_decay")
Records = Mapping[str, list[Record]]


def protocols(records: list[Record]) -> list[pd.DataFrame]:
    """What was trained alike: three folds or more first, then the most epochs. Beside
    each of them stands what has a training of its own: the controls, and RepSet
    and ApproxRepSet as their authors train them."""
    table = frame(records, Run, "test")
    if table.empty:
        return []
    by_authors = table["readout"].isin([*OWN_ARCHITECTURES])
    by_authors &= (table[SIZE] == AUTHORS_SIZE).all(axis=1)
    table["beside"] = by_authors | table["readout"].isin(NAMES)
    table["series"] = (
        table["readout"].map(label)
        + table["weighted"].map({True: COUNTS, False: ""})
        + by_authors.map({True: BY_AUTHORS, False: ""})
    )
    for name in VARIANTS:
        text = f", {name.replace('_', ' ')} " + table[name].map(str)
        table["series"] += text.where(table[name] != getattr(Run, name), "")
    # A cell that has fewer folds than others is under way.
    settings = ["epochs", "learning_rate", "batch_size"]
    keys = table[settings].where(~table["beside"], 0).agg(tuple, axis=1)
    folds = table.groupby(["series", *SIZE, keys])["fold"].transform("nunique")
    table = table[folds == folds.groupby(keys).transform("max")]
    table = by_readout(table.sort_values(["series", *SIZE]), NAMES)
    alike = table[~table["beside"]].groupby(settings)
    groups = [runs for _, runs in alike] or [table[:0]]
    groups.sort(key=lambda runs: (runs["fold"].nunique() < 3, -runs["epochs"].max()))
    return [table[table["beside"] | table.index.isin(runs.index)] for runs in groups]


def _epochs(table: pd.DataFrame) -> int:
    """Of what is trained alike."""
    return table["epochs"].where(~table["beside"], 0).max()


def _has_size(table: pd.DataFrame) -> pd.Series:
    """Else it is a level in the figures, not a line."""
    sized = [name for name in READOUTS if READOUTS[name].uses("points")]
    return table["readout"].isin(sized)


def _by_fold(table: pd.DataFrame, series: str) -> pd.DataFrame:
    """Accuracies, a row per fold and a column per form and size; the mean over
    seeds."""
    runs = table[table["series"].isin(FORMS.get(series, [series]))]
    columns = ["series", *SIZE]
    return runs.pivot_table(index="fold", columns=columns, values="accuracy")


def chosen(table: pd.DataFrame, series: str) -> tuple[pd.Series, tuple | None]:
    """The accuracy in each fold at the size that is best in the *other* folds, and the
    series and size that are taken most often."""
    wide = _by_fold(table, series)
    if wide.empty:
        return pd.Series(dtype=float), None
    if wide.shape[1] == 1 or len(wide) == 1:
        size = wide.mean().idxmax()
        return wide[size], size
    sizes = {fold: wide.drop(index=fold).mean().idxmax() for fold in wide.index}
    values = {fold: wide.loc[fold, size] for fold, size in sizes.items()}
    return pd.Series(values), pd.Series(sizes).mode()[0]


def at_shared_sizes(table: pd.DataFrame, one: str, other: str) -> Difference | None:
    """Of two series, in the mean over the sizes that both have."""
    both = [_by_fold(table, series).droplevel("series", 1) for series in (one, other)]
    shared = both[0].columns.intersection(both[1].columns)
    return _difference(*(wide[shared].mean(axis=1, skipna=False) for wide in both))


def _difference(ours: pd.Series, theirs: pd.Series) -> Difference | None:
    return difference(ours, theirs, overlap=OVERLAP)


def _main(found: Records) -> dict[str, pd.DataFrame]:
    """The first protocol of each data set."""
    parts = {name: protocols(found[name]) for name in DATASETS if name in found}
    return {name: groups[0] for name, groups in parts.items() if groups}


def message(found: Records) -> str:
    """How often each claim holds, and the accuracies behind it."""
    main = _main(found)
    if not main:
        return ""
    counts = Counter((c.text, c.verdict) for c in claims(found) if c.effect)
    ours, rivals = (BEST, GSWE + COUNTS, FREE), ("PMA", "mean", "mean" + COUNTS, REPSET)
    lines = [
        f"- {text[0].upper()}{text[1:]}: holds on {counts[text, 'holds']} data sets, "
        f"fails on {counts[text, 'fails']}, is open on {counts[text, 'open']}."
        for text in dict.fromkeys(text for text, _ in counts)
        if " beats " in text and text.startswith(ours) and text.endswith(rivals)
    ]
    extent = "; ".join(
        f"{name}: {_epochs(table)} epochs, "
        f"{table.loc[~table['beside'], 'fold'].nunique()} folds"
        for name, table in main.items()
    )
    runs = pd.concat(main.values()).sort_values(["series", *SIZE])
    order = by_readout(runs, NAMES)["series"].unique()
    cells = {
        name: [_chosen_cell(table, series) for series in order]
        for name, table in main.items()
    }
    return "\n\n".join(
        [
            "\n".join(lines),
            f"Accuracy in % ({extent}), mean ± standard deviation over folds. The size "
            f"of a readout (references x elements) is chosen in each fold by what was "
            f"best in the *other* folds; the one taken most often is shown.",
            markdown(pd.DataFrame({"readout": order, **cells})),
        ]
    )


def vectors_table(found: Records) -> str:
    """For the page on sets: vectors without training beside networks."""
    main, rows = _main(found), {}
    for name, series in {
        "`SetEmbedder`, logistic regression": FREE,
        "the same, with the counts as `weight`": FREE + COUNTS,
        "mean of the words, logistic regression": label(LOGISTIC),
        "set attention, mean": "mean",
        "the same, with the counts": "mean" + COUNTS,
        "set attention, PMA": "PMA",
        "set attention, GSWE": BEST,
        "RepSet": REPSET,
    }.items():
        values = {data: chosen(table, series)[0] for data, table in main.items()}
        rows[name] = {d: f"{100 * v.mean():.1f}" for d, v in values.items() if len(v)}
    return markdown(pd.DataFrame(rows).T, "accuracy, %")


def _chosen_cell(table: pd.DataFrame, series: str) -> str:
    values, size = chosen(table, series)
    is_sized = _has_size(table)[table["series"] == series].any()
    text = mean_and_deviation(values) if size else ""
    return text + (" ({}x{})".format(*size[1:]) if is_sized else "")


def claims(found: Records) -> list[Claim]:
    """What the paper says, and what we add to it."""
    listed = []
    for name, table in _main(found).items():
        rival = "PMA, mean of the sizes of both"
        effect = at_shared_sizes(table, GSWE, "PMA")
        listed.append(comparison(GSWE, rival, name, effect, NOT_WORSE))
        for ours, theirs, margin in COMPARED:
            effect = _difference(chosen(table, ours)[0], chosen(table, theirs)[0])
            listed.append(comparison(ours, theirs, name, effect, margin))
        for series in (FREE, GSWE, "mean"):
            effect = at_shared_sizes(table, series + COUNTS, series)
            listed.append(Claim(f"word counts help {series}", name, effect))
    return listed


def summary(records: list[Record]) -> str:
    """All cells, or the trials, for a terminal."""
    parts = [_sizes(table) for table in protocols(records)]
    return "\n\n".join(filter(None, [*parts, trials(records, Run)]))


def part(name: str, records: list[Record], folder: Path) -> str:
    """A table for each protocol, the first with a figure, and the trials."""
    parts = []
    for number, table in enumerate(protocols(records)):
        if number == 0:
            draw(table, folder / f"{name}.png")
            text = "Accuracy over the elements of one reference, and over references"
            parts.append(f"![{text}]({name}.png)")
        folds = table.groupby(["series", *SIZE])["fold"].nunique()
        parts += [
            f"Accuracy in % after {_epochs(table)} epochs, mean ± standard deviation "
            f"over {spread(folds)} folds, by references x elements (PMA: heads x "
            f"seeds); parameters and processor seconds per epoch at the size "
            f"chosen most often. {origin(table)}.",
            _sizes(table),
        ]
    return "\n\n".join(filter(None, [*parts, trials(records, Run)]))


def _sizes(table: pd.DataFrame) -> str:
    """A row per series, a column per size."""
    text = table["references"].astype(str) + "x" + table["points"].astype(str)
    table = table.assign(size=text.where(_has_size(table), "any"))
    keys = ["series", *SIZE, "size", "fold"]
    by_fold = table.groupby(keys, sort=False)["accuracy"].mean().reset_index()
    order = by_fold.sort_values(SIZE, kind="stable")["size"].unique()
    order = sorted(order, key=lambda size: size != "any")
    shown = cells(by_fold, "series", "size", "accuracy")[order]
    for series in shown.index:
        size = list(chosen(table, series)[1][1:])
        runs = table[(table["series"] == series) & (table[SIZE] == size).all(axis=1)]
        shown.loc[series, "parameters"] = f"{runs['parameters'].iloc[0]:,.0f}"
        if "epoch_seconds" in runs and runs["epoch_seconds"].notna().any():
            seconds = runs["epoch_seconds"].median()
            shown.loc[series, "seconds"] = f"{seconds:.2f}"
    return markdown(shown, "readout")


def draw(table: pd.DataFrame, path: Path) -> None:
    """The paper's two figures for one data set, side by side; without the controls that
    are far below."""
    from benchmarks.engine.figures import lines

    table = table[~table["readout"].isin(["untrained", "sliced"])]
    fixed = table.loc[table["references"] > 1, "points"].unique()
    panels = {"points": ("one reference, by its elements", table["references"] == 1)}
    if len(fixed):
        text = f"{fixed[0]} elements, by references"
        panels["references"] = (text, table["points"].isin(fixed))
    parts = []
    for axis, (title, is_shown) in panels.items():
        is_level = ~_has_size(table)
        runs = table[is_shown | is_level].assign(panel=title)
        runs["x"] = runs[axis].mask(is_level)
        parts.append(runs.assign(value=100 * runs["accuracy"]))
    labels = "elements (seeds), references (heads, hidden sets)", "accuracy in %"
    lines(pd.concat(parts), path, labels)
