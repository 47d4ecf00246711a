import pytest

from benchmarks.experiments.documents.report import claims, overview
from benchmarks.experiments.documents.run import Run
from tests.benchmarks.markdown import rows


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
def results():
    found = []
    for fold, shift in enumerate((0.0, 0.02, 0.04)):
        found += [
            record("logistic", 0.9 + shift, points=1, fold=fold),
            record("mean", 0.7 + shift, points=1, fold=fold),
            record("pma", 0.6 + shift, fold=fold),
            record("pma", 0.8 + shift, references=2, fold=fold),
            record("gswe_linear", 0.75 + shift, fold=fold),
            record("gswe_linear", 0.75 + shift, references=2, fold=fold),
            record("gswe_linear", 0.94 + shift / 2, points=8, fold=fold),  # not of PMA
            record("gswe_linear", 0.5, fold=fold, weighted=True),
            record("repset", 0.25 + shift, fold=fold),
            record("repset", 0.85 + shift, references=2, fold=fold),
        ]
    found.append(record("pma", 1.0, epochs=1))  # another protocol
    found.append(record("pma", 1.0, fold=3))  # a fold that others do not have yet
    return {"bbcsport": found}


def verdicts(results):
    return {
        (claim.text, claim.data): (
            str(claim.effect),
            claim.effect.verdict(claim.margin),
        )
        for claim in claims(results)
        if claim.effect
    }


def test_nothing_without_records():
    assert overview({}) == ""
    assert claims({}) == []


def test_peaks(results):
    text = overview(results)
    table = rows(text)
    assert "bbcsport: 50 epochs, 3 folds" in text
    assert ["readout", "bbcsport"] in table
    assert ["mean word vector, logistic regression", "92.0 ± 2.0"] in table
    assert ["mean", "72.0 ± 2.0"] in table
    assert ["PMA", "82.0 ± 2.0 (2x64)"] in table
    assert ["GSWE, linear", "95.0 ± 1.0 (1x8)"] in table
    assert ["GSWE, linear, word counts", "50.0 ± 0.0 (1x64)"] in table


def test_claims(results):
    found = verdicts(results)
    # 0.75 against the mean of 0.6 and 0.8: the size that PMA lacks is left out.
    on_par = "GSWE is not worse than PMA, mean of all sizes", "bbcsport"
    assert found[on_par] == ("+5.0 ± 0.0 (3/0/0)", "holds")
    # Differences of 14, 13 and 12: one over the root of three, times 4.3.
    peak = "GSWE has a higher peak than PMA", "bbcsport"
    assert found[peak] == ("+13.0 ± 2.5 (3/0/0)", "holds")
    one = "GSWE beats RepSet with one hidden set", "bbcsport"
    assert found[one] == ("+50.0 ± 0.0 (3/0/0)", "holds")
    mean = "GSWE, mean of all sizes, beats mean pooling", "bbcsport"
    assert found[mean] == ("+5.0 ± 0.0 (3/0/0)", "holds")
    counts = "word counts help GSWE, mean of all sizes", "bbcsport"
    assert found[counts] == ("-27.0 ± 5.0 (0/0/3)", "fails")
    logistic = "GSWE, best, beats logistic regression on means", "bbcsport"
    assert found[logistic] == ("+3.0 ± 2.5 (3/0/0)", "holds")


def test_what_a_data_set_lacks_is_left_open(results):
    results["amazon"] = [record("pma", 0.9, dataset="amazon")]
    assert {data for _, data in verdicts(results)} == {"bbcsport"}
    assert ["mean", "72.0 ± 2.0", ""] in rows(overview(results))
