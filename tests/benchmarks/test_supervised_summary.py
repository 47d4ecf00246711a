import json

import pytest

from benchmarks.experiments import supervised_summary
from benchmarks.experiments.supervised import Run


def record(readout, accuracy, points=64, references=1, fold=0, **settings):
    run = Run(
        readout=readout, points=points, references=references, fold=fold, **settings
    )
    return {
        "id": "-".join(map(str, vars(run).values())),
        "config": dict(vars(run)),
        "seed": 0,
        "metrics": {"accuracy": accuracy},
    }


@pytest.fixture
def results(tmp_path):
    found = []
    for fold, shift in enumerate((0.0, 0.02)):
        found += [
            record("logistic", 0.9 + shift, points=1, fold=fold),
            record("mean", 0.7 + shift, points=1, fold=fold),
            record("pma", 0.6 + shift, fold=fold),
            record("pma", 0.8 + shift, references=2, fold=fold),
            record("gswe_linear", 0.75 + shift, fold=fold),
            record("gswe_linear", 0.75 + shift, references=2, fold=fold),
            record("gswe_linear", 0.99 + shift / 2, points=8, fold=fold),  # not of PMA
            record("gswe_linear", 0.5, fold=fold, weighted=True),
            record("repset", 0.25 + shift, fold=fold),
            record("repset", 0.85 + shift, references=2, fold=fold),
        ]
    found.append(record("pma", 1.0, epochs=1))  # another protocol
    found.append(record("pma", 1.0, fold=2))  # a fold that others do not have yet
    write(tmp_path / "bbcsport.jsonl", found)
    return tmp_path


def write(path, found):
    path.write_text("".join(json.dumps(record) + "\n" for record in found))


def rows(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_nothing_without_records(tmp_path):
    assert supervised_summary.render(tmp_path) == ""


def test_peaks(results):
    text = supervised_summary.render(results)
    table = rows(text)
    assert "bbcsport: 50 epochs, 2 folds" in text
    assert "PMA: 2; GSWE, linear: 3; GSWE, linear, word counts: 1; RepSet: 2." in text
    assert "reconstruction" in text
    assert ["readout", "bbcsport"] in table
    assert ["mean word vector, logistic regression", "91.0 ± 1.4"] in table
    assert ["mean", "71.0 ± 1.4"] in table
    assert ["PMA", "81.0 ± 1.4 (2x64)"] in table
    assert ["GSWE, linear", "99.5 ± 0.7 (1x8)"] in table
    assert ["GSWE, linear, word counts", "50.0 ± 0.0 (1x64)"] in table


def test_claims(results):
    table = rows(supervised_summary.render(results))
    # 0.75 against the mean of 0.6 and 0.8: the size that PMA lacks is left out.
    assert ["on par: GSWE - PMA, all sizes", "+5.0 ± 0.0 (2/0/0)"] in table
    # Differences of 19 and 18: half a point times 12.706.
    peaks = ["higher peaks: GSWE - PMA, best of each", "+18.5 ± 6.4 (2/0/0)"]
    assert peaks in table
    assert ["RepSet - GSWE, one hidden set", "-50.0 ± 0.0 (0/0/2)"] in table
    assert ["GSWE, mean of all sizes - mean", "+5.0 ± 0.0 (2/0/0)"] in table


def test_bars(results):
    table = rows(supervised_summary.render(results))
    difference = "+18.5 ± 6.4 (2/0/0)"
    assert ["bbcsport", "PMA, best", "81.0", "99.5", "yes", difference] in table
    logistic = "mean word vector, logistic regression"
    difference = "+8.5 ± 6.4 (2/0/0)"
    assert ["bbcsport", logistic, "91.0", "99.5", "yes", difference] in table
    # Word counts do not help to reach it.
    found = [record("gswe_linear", 0.96), record("gswe_linear", 0.99, weighted=True)]
    found += [record("pma", 0.97)]
    write(results / "bbcsport.jsonl", found)
    table = rows(supervised_summary.render(results))
    assert ["bbcsport", "PMA, best", "97.0", "96.0", "no", "-1.0 (0/0/1)"] in table
    assert ["bbcsport", f"{logistic}, 70/30", "97.3", "96.0", "no", ""] in table
    assert not any(logistic in row for row in table)  # no record


def test_what_a_data_set_lacks_is_left_open(results):
    write(results / "amazon.jsonl", [record("pma", 0.9, dataset="amazon")])
    table = rows(supervised_summary.render(results))
    assert ["on par: GSWE - PMA, all sizes", "+5.0 ± 0.0 (2/0/0)", ""] in table
    assert ["mean", "71.0 ± 1.4", ""] in table
    assert not any(row[0] == "amazon" for row in table)
