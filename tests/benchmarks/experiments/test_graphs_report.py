import pandas as pd
import pytest

from benchmarks.experiments.graphs.cells import average_ranks
from benchmarks.experiments.graphs.report import message
from benchmarks.experiments.graphs.report import part as report
from benchmarks.experiments.graphs.run import Run
from tests.benchmarks.markdown import rows


def record(dataset, readout, seed, test, valid=0.5, seconds=1.0, **settings):
    run = Run(seed=seed, dataset=dataset, readout=readout, **settings)
    metrics = {"test": test, "valid": valid, "epoch_seconds": seconds}
    if run.evaluate == "validation":
        del metrics["test"]
    return {
        "id": run.identifier(),
        "config": run.settings(),
        "seed": seed,
        "metrics": metrics,
        "parameters": 1234,
        "commit": "abc",
    }


def comparison() -> list[dict]:
    """Four heads far ahead on ENZYMES, not so on molesol."""
    tests = {
        ("ENZYMES", "mean"): (0.6, 0.5),
        ("ENZYMES", "sum"): (0.5, 0.4),
        ("ENZYMES", "max"): (0.55, 0.6),  # the best of the plain ones on validation
        ("ENZYMES", "quantile"): (0.99, 0.1),
        ("ENZYMES", "gswe_heads1"): (0.6, 0.5),
        ("ENZYMES", "gswe_heads4"): (0.8, 0.5),
        ("ogbg-molesol", "mean"): (1.0, 1.0),
        ("ogbg-molesol", "sum"): (0.8, 0.8),  # a lower error is better
        ("ogbg-molesol", "max"): (1.2, 1.2),
        ("ogbg-molesol", "quantile"): (1.1, 1.1),
        ("ogbg-molesol", "gswe_heads1"): (1.0, 1.0),
        ("ogbg-molesol", "gswe_heads4"): (1.0, 1.0),
    }
    found = []
    for (dataset, readout), (test, valid) in tests.items():
        for seed in range(4):
            noise = 0.001 * (seed * len(readout) % 3)
            found.append(
                record(dataset, readout, seed, test + noise, valid, with_size=True)
            )
    return found


def test_message_and_differences(tmp_path):
    records = comparison()
    text = message({"readouts": records})
    first = text.splitlines()[0]
    assert first == (
        "**GSWE, 4 heads is significantly ahead of mean on 1 of 2 data sets (ENZYMES), "
        "behind on 0; ahead of best of mean, sum, max on 1 of 2 data sets (ENZYMES), "
        "behind on 1 (ogbg-molesol); ahead of best rival on 1 of 2 data sets "
        "(ENZYMES), behind on 1 (ogbg-molesol). An epoch takes 1.00x the time of one "
        "with mean pooling.**"
    )
    assert "Folds or seeds: ENZYMES 4, ogbg-molesol 4." in text
    # The rival is chosen by validation, and RMSE counts down.
    cells = next(row for row in rows(text) if row[0] == "ogbg-molesol")
    assert cells[3] == "**-0.201 ± 0.002 (sum)**"
    assert message({"graphs": records}) == message({}) == ""
    page = report("readouts", records, tmp_path)
    assert (tmp_path / "readouts.png").stat().st_size > 1000
    assert ["ENZYMES (accuracy, %)", "59.60", "60.08 ± 0.10", "50.00 ± 0.00"] in rows(
        page
    )


@pytest.mark.parametrize(
    ("setting", "worse", "better"),
    [
        ("learning_rate", 0.001, 0.01),
        ("dropout", 0.5, 0.0),
        ("extremes", True, False),
        ("points", 8, 16),
        ("epochs", 100, 50),
    ],
)
def test_validation_chooses_the_cell_of_a_readout(tmp_path, setting, worse, better):
    found = [record("ENZYMES", "mean", seed, 0.5) for seed in range(3)]
    for seed in range(3):
        cell = {"with_size": False, setting: better}
        found.append(record("ENZYMES", "gswe_heads4", seed, 0.6, 0.7, **cell))
    # Better in a seed that the other cell lacks, worse in those that both have.
    for seed, valid in ((1, 0.6), (2, 0.6), (3, 1.0)):
        cell = {"with_size": False, setting: worse}
        found.append(record("ENZYMES", "gswe_heads4", seed, 0.8, valid, **cell))
    # Nor does another task count.
    found.append(record("ENZYMES", "gswe_heads4", 2, 0.9, 1.0, splits="public"))
    text = report("graphs", found, tmp_path)
    assert ["GSWE, 4 heads", "**60.00 ± 0.00**"] in [row[:2] for row in rows(text)]
    name = setting.replace("_", " ")
    assert ["GSWE, 4 heads", f"{name} {better}"] in rows(text)


def test_cells_without_a_common_seed(tmp_path):
    found = [record("ENZYMES", "mean", seed, 0.5) for seed in (0, 1)]
    found += [record("ENZYMES", "max", seed, 0.4, 0.1) for seed in (0, 1)]
    found.append(record("ENZYMES", "max", 2, 0.9, 0.9, dropout=0.5))
    table = rows(report("graphs", found, tmp_path))
    assert ["max", "40.00 ± 0.00"] in [row[:2] for row in table]


def test_scores_and_ranks(tmp_path):
    records = [
        record("MUTAG", "mean", 0, 0.7),
        record("MUTAG", "mean", 1, 0.8),
        record("MUTAG", "gswe_linear", 0, 0.8, seconds=2.0),
        record("MUTAG", "gswe_linear", 1, 0.9, seconds=2.0),
        record("MUTAG", "gswe_linear", 2, 0.1),  # mean has no such fold yet
        record("ogbg-molesol", "mean", 0, 1.25, seconds=3.0),
        record("ogbg-molesol", "gswe_linear", 0, 1.5, seconds=1.5),
        record("ogbg-molesol", "max", 0, 9.0),  # has no rank: MUTAG lacks it
        record("DD", "mean", 0, 0.6),  # nothing to compare with
        record("MUTAG", "mean", 0, 0.99, attributes=True),  # another task
        record("PTC_MR", "mean", 0, 0.99, evaluate="validation"),  # a trial
    ]
    text = report("graphs", records, tmp_path)
    table = rows(text)
    cells = ["**85.00 ± 7.07**", "1.500", "1.50", "1.50", "1,234", "1.00x"]
    assert ["GSWE, linear", *cells] in table
    cells = ["75.00 ± 7.07", "**1.250**", "1.50", "1.50", "1,234", "1.00x"]
    assert ["mean", *cells] in table
    assert ["max", "", "9.000", "", "", "1,234", "0.33x"] in table
    assert not any(row[0] == "DD" for row in table)
    assert "99.0" not in text
    for some in (records[8:9], []):
        text = report("graphs", some, tmp_path)
        assert "No data set has been run with several readouts" in text


def test_trials(tmp_path):
    found = []
    for seed in (10, 11, 12):
        for points, valid in ((8, 0.5), (16, 0.7)):
            settings = {"evaluate": "validation", "points": points}
            found += [
                record("ENZYMES", "gswe_heads1", seed, 0.0, valid, **settings),
                record("ogbg-molesol", "gswe_heads1", seed, 0.0, valid, **settings),
            ]
    table = rows(report("heads_start", found, tmp_path))
    assert ["gswe_heads1", "16", "70.00 ± 0.00", "0.700 ± 0.000"] in table
    change = ["gswe_heads", "points 16, not 8"]
    assert [*change, "+20.0 ± 0.0 (3/0/0)", "-20.0 ± 0.0 (0/0/3)"] in table
    assert not list(tmp_path.iterdir())


def test_average_ranks():
    scores = pd.DataFrame({"a": [0.9, 0.5], "b": [0.8, 0.7], "c": [0.1, 0.5]})
    assert average_ranks(scores).to_dict() == {"a": 1.75, "b": 1.5, "c": 2.75}
    scores.loc[1, "b"] = float("nan")  # diverged
    assert average_ranks(scores).to_dict() == {"a": 1.25, "b": 2.5, "c": 2.25}
