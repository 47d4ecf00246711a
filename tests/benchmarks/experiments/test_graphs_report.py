import pytest

from benchmarks.experiments.graphs.report import message, part
from benchmarks.experiments.graphs.run import Run
from tests.benchmarks.made import record
from tests.benchmarks.markdown import rows


def made(dataset, readout, seed, test, valid=0.5, seconds=1.0, **settings):
    run = Run(seed=seed, dataset=dataset, readout=readout, **settings)
    tested = {"test": test} if run.evaluate == "test" else {}
    return record(run, valid=valid, epoch_seconds=seconds, **tested)


#: Test and validation: four heads far ahead on ENZYMES, not so on molesol, where a
#: lower error is better.
SCORES = {
    ("ENZYMES", "mean"): (0.6, 0.5),
    ("ENZYMES", "sum"): (0.5, 0.4),
    ("ENZYMES", "max"): (0.55, 0.6),  # the best of the plain ones on validation
    ("ENZYMES", "quantile"): (0.99, 0.1),
    ("ENZYMES", "gswe_heads1"): (0.6, 0.5),
    ("ENZYMES", "gswe_heads4"): (0.8, 0.5),
    ("ogbg-molesol", "mean"): (1.0, 1.0),
    ("ogbg-molesol", "sum"): (0.8, 0.8),
    ("ogbg-molesol", "max"): (1.2, 1.2),
    ("ogbg-molesol", "quantile"): (1.1, 1.1),
    ("ogbg-molesol", "gswe_heads1"): (1.0, 1.0),
    ("ogbg-molesol", "gswe_heads4"): (1.0, 1.0),
    ("ENZYMES", "untrained"): (0.7, 0.9),  # the best on validation, but no rival
    ("ogbg-molesol", "untrained"): (0.1, 0.1),
    ("ENZYMES", "parameter_free"): (0.99, 0.1),  # which validation does not choose
    ("ogbg-molesol", "parameter_free"): (1.9, 1.9),
}


def test_message_and_differences(tmp_path):
    found = [
        made(*names, seed, test + 0.001 * (seed * len(names[1]) % 3), valid, **sized)
        for names, (test, valid) in SCORES.items()
        for seed in range(4)
        for sized in [{"with_size": True}]
    ]
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
    found = [made("ENZYMES", "mean", seed, 0.5) for seed in range(3)]
    for seed in range(3):
        cell = {setting: better}
        found.append(made("ENZYMES", "gswe_heads4", seed, 0.6, 0.7, **cell))
    # Better in a seed that the other cell lacks, worse in those that both have.
    for seed, valid in ((1, 0.6), (2, 0.6), (3, 1.0)):
        cell = {setting: worse}
        found.append(made("ENZYMES", "gswe_heads4", seed, 0.8, valid, **cell))
    # Nor does another task count.
    found.append(made("ENZYMES", "gswe_heads4", 2, 0.9, 1.0, splits="public"))
    table = rows(part("graphs", found, tmp_path))
    assert ["GSWE, 4 heads", "**60.00 ± 0.00**"] in [row[:2] for row in table]
    name = setting.replace("_", " ")
    assert ["GSWE, 4 heads", f"{name} {better}"] in table


def test_a_chosen_cell_with_fewer_folds_leaves_fewer_folds_for_all(tmp_path):
    found = [made("ENZYMES", "mean", seed, 0.1 * seed) for seed in range(4)]
    found += [made("ENZYMES", "max", seed, 0.5, 0.5) for seed in range(4)]
    found += [made("ENZYMES", "max", s, 0.6, 0.9, dropout=0.5) for s in range(2)]
    table = [row[:2] for row in rows(part("graphs", found, tmp_path))]
    assert ["max", "**60.00 ± 0.00**"] in table
    assert ["mean", "5.00 ± 7.07"] in table
    assert ["ENZYMES", "2"] in table


def test_networks_of_the_same_fold_are_one_result(tmp_path):
    found = [
        made("ENZYMES", readout, seed, test + 0.1 * (seed // 10), splits="public")
        for readout, test in (("mean", 0.5), ("max", 0.6))
        for seed in (0, 1, 10, 11)
    ]
    table = [row[:2] for row in rows(part("graphs", found, tmp_path))]
    assert ["mean", "55.00 ± 0.00"] in table
    assert ["ENZYMES", "2"] in table


def test_scores(tmp_path):
    found = [
        made("MUTAG", "mean", 0, 0.7),
        made("MUTAG", "mean", 1, 0.8),
        made("MUTAG", "gswe_linear", 0, 0.8, seconds=2.0),
        made("MUTAG", "gswe_linear", 1, 0.9, seconds=2.0),
        made("MUTAG", "gswe_linear", 2, 0.1),  # mean has no such fold yet
        made("ogbg-molesol", "mean", 0, 1.25, seconds=3.0),
        made("ogbg-molesol", "gswe_linear", 0, 1.5, seconds=1.5),
        made("ogbg-molesol", "max", 0, 9.0),  # MUTAG lacks it
        made("NCI1", "sum", 0, 0.5),  # where there is no mean to compare times with
        made("NCI1", "sort", 0, 0.6),
        made("DD", "mean", 0, 0.6),  # nothing to compare with
        made("MUTAG", "mean", 0, 0.99, attributes=True),  # another task
        made("PTC_MR", "mean", 0, 0.99, evaluate="validation"),  # a trial
    ]
    text = part("graphs", found, tmp_path)
    table = rows(text)
    assert ["GSWE, linear", "**85.00 ± 7.07**", "", "1.500", "1,234", "1.00x"] in table
    assert ["mean", "75.00 ± 7.07", "", "**1.250**", "1,234", "1.00x"] in table
    assert ["max", "", "", "9.000", "1,234", "0.33x"] in table
    assert ["sort", "", "**60.00**", "", "1,234", ""] in table
    assert not any(row[0] == "DD" for row in table)
    assert "99.0" not in text
    others = [record for record in found if record["config"]["dataset"] != "NCI1"]
    ranked = ["mean", "75.00 ± 7.07", "**1.250**", "1.50", "1,234", "1.00x"]
    assert ranked in rows(part("graphs", others, tmp_path))
    for some in (found[10:11], []):
        text = part("graphs", some, tmp_path)
        assert "No data set has been run with several readouts" in text


def test_trials(tmp_path):
    found = [
        made(dataset, "gswe_heads1", seed, 0.0, valid, evaluate="validation", **cell)
        for seed in (10, 11, 12)
        for cell, valid in (({"points": 8}, 0.5), ({"points": 16}, 0.7))
        for dataset in ("ENZYMES", "ogbg-molesol")
    ]
    table = rows(part("heads_start", found, tmp_path))
    assert ["as most", "50.00 ± 0.00", "0.500 ± 0.000"] in table
    assert ["points=16", "70.00 ± 0.00", "0.700 ± 0.000"] in table
    assert not list(tmp_path.iterdir())


def test_epochs_are_compared_on_the_same_day(tmp_path):
    found = [
        made("MUTAG", readout, seed, 0.5, learning_rate=rate, seconds=seconds)
        | {"commit": day}
        for readout, rate, day, seconds in (
            ("mean", 0.01, "monday", 1.0),
            ("mean", 0.02, "tuesday", 4.0),
            ("max", 0.02, "tuesday", 8.0),
        )
        for seed in range(2)
    ]
    table = [row[:: len(row) - 1] for row in rows(part("graphs", found, tmp_path))]
    assert ["mean", "1.00x"] in table
    assert ["max", "2.00x"] in table


def test_controls_do_not_decide_which_seeds_count(tmp_path):
    found = [
        made("MUTAG", readout, seed, score)
        for readout, score, seeds in (
            ("mean", 0.5, 2),
            ("max", 0.6, 2),
            ("untrained", 0.7, 6),
        )
        for seed in range(seeds)
    ]
    table = rows(part("graphs", found, tmp_path))
    first = [row[:2] for row in table]
    assert ["max", "60.00 ± 0.00"] in first
    assert ["untrained network, linear model", "**70.00 ± 0.00**"] in first
    assert ["MUTAG", "2"] in first
    text = part("graphs", found[4:], tmp_path)
    assert "No data set has been run with several readouts" in text
