from dataclasses import replace

import pytest

from benchmarks.experiments.graphs.report import message, part
from benchmarks.experiments.graphs.run import Run
from tests.benchmarks.made import record, rows

NOTHING = "No data set has been run with several readouts"


def made(dataset, readout, tests, valid=0.5, seconds=1.0, seeds=range(9), **settings):
    """A record for each seed with such a score."""
    run = Run(dataset=dataset, readout=readout, **settings)
    metrics = {"valid": valid, "epoch_seconds": seconds}
    return [
        record(
            replace(run, seed=seed),
            **metrics,
            **({} if test is None else {"test": test}),
        )
        for seed, test in zip(seeds, tests, strict=False)
    ]


#: On ENZYMES, test and validation: four heads are far ahead. On molesol, where a lower
#: error is better, both are the same.
SCORES = {
    "mean": (0.6, 0.5, 1.0),
    "sum": (0.5, 0.4, 0.8),
    "max": (0.55, 0.6, 1.2),  # the best of the plain ones on validation
    "quantile": (0.99, 0.1, 1.1),
    "gswe_heads1": (0.6, 0.5, 1.0),
    "gswe_heads4": (0.8, 0.7, 1.0),  # better on validation, but no rival of its own
    "untrained": (0.7, 0.9, 0.1),  # the best on validation, but no rival
    "parameter_free": (0.99, 0.1, 1.9),  # which validation does not choose
}


def test_message_and_differences(tmp_path):
    enzymes, molesol = [], []
    for readout, (test, valid, error) in SCORES.items():
        noise = [0.001 * (seed * len(readout) % 3) for seed in range(4)]
        tests, errors = ([score + n for n in noise] for score in (test, error))
        enzymes += made("ENZYMES", readout, tests, valid, with_size=True)
        molesol += made("ogbg-molesol", readout, errors, error, with_size=True)
    found = enzymes + molesol
    text = message({"readouts": found})
    assert text.splitlines()[0] == (
        "**GSWE, 4 heads, over 2 data sets, is significantly ahead of mean on 1 "
        "(ENZYMES) and behind on 0; ahead of best of mean, sum, max on 1 (ENZYMES) and "
        "behind on 1 (ogbg-molesol); ahead of best rival on 1 (ENZYMES) and behind on "
        "1 (ogbg-molesol). An epoch takes 1.00x the time of one with mean pooling.**"
    )
    assert "Folds or seeds: ENZYMES 4, ogbg-molesol 4." in text
    assert (
        "A control that trains no network scores higher than mean on ENZYMES, "
        "ogbg-molesol; than GSWE, 4 heads on ogbg-molesol; "
        "than GSWE, 1 head on ENZYMES, ogbg-molesol."
    ) in text
    # The rival is chosen by validation, and RMSE counts down.
    cells = next(row for row in rows(text) if row[0] == "ogbg-molesol")
    assert cells[3] == "**-0.201 ± 0.002 (sum)**"
    assert message({"graphs": found}) == message({}) == ""
    page = part("readouts", found, tmp_path)
    assert (tmp_path / "readouts.png").stat().st_size > 1000
    anchor = ["ENZYMES (accuracy, %)", "59.60", "60.08 ± 0.10", "50.00 ± 0.00"]
    assert anchor in rows(page)


@pytest.mark.parametrize(
    ("setting", "worse", "better"),
    [
        ("learning_rate", 0.001, 0.01),
        ("extremes", True, False),
        ("points", 8, 16),
        ("epochs", 100, 50),
    ],
)
def test_validation_chooses_the_cell_of_a_readout(tmp_path, setting, worse, better):
    heads, worse = ("ENZYMES", "gswe_heads4"), {setting: worse}
    found = [
        *made("ENZYMES", "mean", [0.5] * 3),
        *made(*heads, [0.6] * 3, 0.7, **{setting: better}),
        # Worse in the seeds that both have, and better in another one.
        *made(*heads, [0.8] * 2, 0.6, seeds=(1, 2), **worse),
        *made(*heads, [0.8], 1.0, seeds=(3,), **worse),
        # Nor does another task count.
        *made(*heads, [0.9], 1.0, seeds=(2,), splits="public"),
    ]
    table = [row[:2] for row in rows(part("graphs", found, tmp_path))]
    assert ["GSWE, 4 heads", "**60.00 ± 0.00**"] in table
    assert ["GSWE, 4 heads", f"{setting.replace('_', ' ')} {better}"] in table


def of_day(day, readout, seconds, rate):
    """Two records, the time of which can be compared with that of others of the day."""
    found = made("MUTAG", readout, [0.5] * 2, 0.5, seconds, learning_rate=rate)
    return [record | {"commit": day} for record in found]


TWICE = {"seeds": (0, 1, 10, 11), "splits": "public"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # The cell that is chosen has fewer folds, which leaves fewer for all.
        (
            [
                *made("ENZYMES", "mean", [0.0, 0.1, 0.2, 0.3]),
                *made("ENZYMES", "max", [0.5] * 4),
                *made("ENZYMES", "max", [0.6] * 2, 0.9, dropout=0.5),
            ],
            {("max", "**60.00 ± 0.00**"), ("mean", "5.00 ± 7.07"), ("ENZYMES", "2")},
        ),
        # Two networks of a fold are one result.
        (
            [
                *made("ENZYMES", "mean", [0.5, 0.5, 0.6, 0.6], **TWICE),
                *made("ENZYMES", "max", [0.6, 0.6, 0.7, 0.7], **TWICE),
            ],
            {("mean", "55.00 ± 0.00"), ("ENZYMES", "2")},
        ),
        # Controls do not decide which seeds count.
        (
            [
                *made("MUTAG", "mean", [0.5] * 2),
                *made("MUTAG", "max", [0.6] * 2),
                *made("MUTAG", "untrained", [0.7] * 6),
            ],
            {
                ("max", "60.00 ± 0.00"),
                ("untrained network, linear model", "**70.00 ± 0.00**"),
                ("MUTAG", "2"),
            },
        ),
        # Epochs are compared on the same day.
        (
            [
                *of_day("monday", "mean", 1.0, 0.01),
                *of_day("tuesday", "mean", 4.0, 0.02),
                *of_day("tuesday", "max", 8.0, 0.02),
            ],
            {("mean", "1.00x"), ("max", "2.00x")},
        ),
    ],
)
def test_which_runs_count(tmp_path, found, expected):
    table = rows(part("graphs", found, tmp_path))
    assert expected <= {(row[0], cell) for row in table for cell in row[1:]}


def test_scores(tmp_path):
    found = [
        *made("MUTAG", "mean", [0.7, 0.8]),
        # Mean has no third fold yet.
        *made("MUTAG", "gswe_linear", [0.8, 0.9, 0.1], seconds=2.0),
        *made("ogbg-molesol", "mean", [1.25], seconds=3.0),
        *made("ogbg-molesol", "gswe_linear", [1.5], seconds=1.5),
        *made("ogbg-molesol", "max", [9.0]),  # MUTAG lacks it
        *made("DD", "mean", [0.6]),  # nothing to compare with
        *made("MUTAG", "mean", [0.99], attributes=True),  # another task
        *made("PTC_MR", "mean", [None], evaluate="validation"),  # a trial
    ]
    # Where there is no mean to compare times with.
    unranked = made("NCI1", "sum", [0.5]) + made("NCI1", "sort", [0.6])
    text = part("graphs", found + unranked, tmp_path)
    table = rows(text)
    for row in (
        ["GSWE, linear", "**85.00 ± 7.07**", "", "1.500", "1,234", "1.00x"],
        ["mean", "75.00 ± 7.07", "", "**1.250**", "1,234", "1.00x"],
        ["max", "", "", "9.000", "1,234", "0.33x"],
        ["sort", "", "**60.00**", "", "1,234", ""],
    ):
        assert row in table
    assert not any(row[0] == "DD" for row in table)
    assert "99.0" not in text
    ranked = ["mean", "75.00 ± 7.07", "**1.250**", "1.50", "1,234", "1.00x"]
    assert ranked in rows(part("graphs", found, tmp_path))
    alone = made("DD", "mean", [0.6])
    for some in (alone, made("MUTAG", "untrained", [0.7] * 2), []):
        assert NOTHING in part("graphs", some, tmp_path)


def test_trials(tmp_path):
    options = {"seeds": (10, 11, 12), "evaluate": "validation"}
    found = []
    for points, valid in ((8, 0.5), (16, 0.7)):
        for dataset in ("ENZYMES", "ogbg-molesol"):
            cell = (dataset, "gswe_heads1", [None] * 3, valid)
            found += made(*cell, points=points, **options)
    table = rows(part("heads_start", found, tmp_path))
    assert ["as most", "50.00 ± 0.00", "0.500 ± 0.000"] in table
    assert ["points=16", "70.00 ± 0.00", "0.700 ± 0.000"] in table
    assert not list(tmp_path.iterdir())
