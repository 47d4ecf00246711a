from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from benchmarks.engine import config
from benchmarks.experiments.documents import controls, report
from benchmarks.experiments.documents import run as documents_run
from benchmarks.experiments.documents.model import WeightedMean
from benchmarks.experiments.documents.run import Run, split
from gswe_pyg.sets import SetEmbedder
from tests.benchmarks.made import CONTEXT, TINY, outcome, record, rows

TINY = TINY["documents"]


def test_parameters_by_hand():
    def sab(channels, out):
        return 3 * out * (channels + 1) + out * (out + 1)

    def perceptron(width, hidden=128):
        return hidden * (width + 1) + 2 * (hidden + 1)

    backbone = sab(6, 128) + sab(128, 128) + sab(128, 16)
    gswe = backbone + perceptron(2 * 3 * 16) + 2 * 3 * 16
    pma = 3 * 16 + 17 * (16 + 32 + 16)
    for expected, settings in (
        (backbone + perceptron(16), "readout=mean"),
        (gswe, "references=2"),
        (gswe + 2 * 96, "references=2 scale=layer_norm"),
        (gswe + 16 * 16, "references=2 slicer=linear"),
        (backbone + perceptron(48) + pma, "readout=pma"),
        # Hidden sets stand on the words themselves.
        (4 * 3 * 6 + 2 * 5, "readout=repset references=4"),
        (4 * 3 * 6 + perceptron(4, 32), "readout=approx_repset references=4"),
        (6 + 1, "readout=logistic"),
        (6 * 8 + 1, "readout=parameter_free"),
        (16 * 16 + 1, "readout=untrained"),
        (0, "readout=sliced"),
    ):
        assert outcome(f"documents {settings}").parameters == expected, settings


def test_words_may_count_in_the_mean():
    x, index = torch.tensor([[1.0], [4.0], [7.0]]), torch.tensor([0, 0, 1])
    weight = torch.tensor([2.0, 1.0, 5.0])
    assert WeightedMean()(x, index, weight=weight).flatten().tolist() == [2, 7]
    assert WeightedMean()(x, index).flatten().tolist() == [2.5, 7]


def test_folds_partition_and_validation_is_cut_from_training(documents):
    tested = []
    for fold in range(5):
        run = replace(TINY, fold=fold)
        train, test = split(documents, run)
        inner, validation = split(documents, replace(run, evaluate="validation"))
        assert sorted([*train.indices(), *test.indices()]) == list(range(60))
        assert sorted([*inner.indices(), *validation.indices()]) == train.indices()
        assert len(validation) > 0
        tested += test.indices()
    assert sorted(tested) == list(range(60))


@pytest.mark.parametrize(("value", "label"), [(1.0, 0), (-1.0, 1), (torch.nan, -1)])
def test_the_accuracy_of_known_answers(documents, value, label):
    def model(x, index, ptr, num_sets, weight):
        return torch.tensor([[value, 0.0]]).expand(num_sets, -1)

    found = documents_run.accuracy(TINY, model, documents, CONTEXT.device)
    assert found == pytest.approx((documents.y == label).double().mean().item())


def test_means_of_documents(documents):
    means = controls.mean_vectors(documents)
    for i in (0, 7, 59):
        mean = documents[i].x.double().mean(0).numpy()
        assert means[i] == pytest.approx(mean, abs=1e-12)


def test_an_untrained_network_gives_vectors_in_order(documents):
    run = replace(TINY, readout="untrained")
    embed = documents_run.without_training(run, documents)
    vectors = embed(documents)
    for i in (0, 7, 59):
        assert embed(documents[[i]])[0] == pytest.approx(vectors[i], abs=1e-5)


def test_words_may_count_in_vectors_without_training(documents):
    plain, counted = (
        controls.sliced_vectors(documents, 0, weighted)(documents)
        for weighted in (False, True)
    )
    words, counts = zip(*((d.x, d.weight.flatten()) for d in documents), strict=True)
    embedder = SetEmbedder(documents.num_features, controls.POINTS, random_state=0)
    expected = embedder.fit_transform(list(words), weight=list(counts))
    assert counted == pytest.approx(expected, abs=1e-5)
    assert plain != pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("readout", controls.NAMES)
def test_controls_learn_from_training_sets_alone(documents, monkeypatch, readout):
    right = outcome(f"documents readout={readout}").metrics
    if readout != "untrained":  # which depends on the network
        # Words 0 to 9 are of the first class only, words 20 to 29 of the second.
        assert right["accuracy"] > 0.8
    # Other labels, and then other words, too, where it must not look.
    train, held_out = split(documents, TINY)
    other = deepcopy(documents)
    monkeypatch.setattr(
        documents_run, "split", lambda *_: (train, other[held_out.indices()])
    )
    other._data.y = 1 - other._data.y
    found = outcome(f"documents readout={readout}").metrics
    assert found["accuracy"] == pytest.approx(1 - right["accuracy"], abs=1e-6)
    other._data.token = (other._data.token + 7) % 30
    found = outcome(f"documents readout={readout}").metrics
    assert found | {"accuracy": 0} == right | {"accuracy": 0}
    assert found["accuracy"] != right["accuracy"]


@pytest.mark.parametrize("preset", ["small", "paper"])
@pytest.mark.parametrize("name", [*report.DATASETS, "documents_start"])
def test_grids_of_the_documents(name, preset):
    runs = config.load(name, [f"preset={preset}"]).runs
    if name == "documents_start":  # trials look at no test document
        assert {run.evaluate for run in runs} == {"validation"}
        return
    assert {(run.dataset, run.evaluate) for run in runs} == {(name, "test")}
    repetitions = [run.repetition for run in runs]
    assert repetitions == sorted(repetitions)  # even, wherever it is stopped
    assert {run.fold for run in runs} == set(range(5))
    assert {run.readout for run in runs} >= {"mean", "pma", "repset"}
    assert all(16 % run.references == 0 for run in runs if run.readout == "pma")


def made(readout, accuracies, points=64, **settings):
    """A record for each fold."""
    seconds = {} if readout == "logistic" else {"epoch_seconds": 1.25}
    run = Run(readout=readout, points=points, **settings)
    return [
        record(replace(run, fold=fold), accuracy=accuracy, **seconds)
        for fold, accuracy in enumerate(accuracies)
    ]


def test_report_of_the_grids(tmp_path):
    by_authors = {"references": 10, "epochs": 30, "learning_rate": 0.01}
    found = [
        *made("gswe_heads4", [1.0]),  # under way: other folds are not there
        *made("mean", [0.2], points=1, epochs=3),
        *made("logistic", [0.9, 0.92, 0.94], points=1),
        *made("mean", [0.7, 0.72, 0.74], points=1),
        *made("pma", [0.6, 0.62, 0.64]),
        *made("pma", [0.8, 0.82, 0.84], references=2),
        *made("gswe_linear", [0.75, 0.77, 0.79]),
        *made("gswe_linear", [0.75, 0.77, 0.79], references=2),
        *made("gswe_linear", [0.5, 0.5, 0.5], weighted=True),
        *made("repset", [0.85, 0.87, 0.89], points=20, **by_authors),
        # Best in the first fold, and in no other: taken where that is unknown.
        *made("gswe_linear", [0.99, 0.6, 0.6], points=8),
    ]
    text = report.part("twitter", found, tmp_path)
    means = "mean word vector, logistic regression"
    for row in (
        ["readout", "any", "1x8", "1x64", "2x64", "10x20", "parameters", "seconds"],
        ["PMA", "", "", "62.0 ± 2.0", "82.0 ± 2.0", "", "1,234", "1.25"],
        [means, "92.0 ± 2.0", "", "", "", "", "1,234", ""],
    ):
        assert row in rows(text)
    assert any(row[0] == "RepSet, as its authors train it" for row in rows(text))
    # Another number of epochs is another table.
    assert text.index("after 50 epochs") < text.index("after 3 epochs")
    assert (tmp_path / "twitter.png").stat().st_size > 1000
    assert "82.0 ± 2.0" in report.summary(found)

    # Sizes are chosen on the other folds.
    text = report.message({"twitter": found})
    assert "twitter: 50 epochs, 3 folds" in text
    assert ["PMA", "82.0 ± 2.0 (2x64)"] in rows(text)
    (row,) = [row for row in rows(text) if row[0] == "GSWE, linear"]
    assert row[1].startswith("65.0 ± 8.7")
    assert ["GSWE, linear, word counts", "50.0 ± 0.0 (1x64)"] in rows(text)
    assert "4 heads" not in text
    assert "beats PMA: holds on 0 data sets, fails on 0, is open on 1" in text

    claims = {c.text: str(c.effect) for c in report.claims({"twitter": found})}
    # 0.75 against the mean of 0.6 and 0.8: the size that PMA lacks is left out.
    claim = "GSWE, linear is not worse than PMA, mean of the sizes of both"
    assert claims[claim] == "+5.0 ± 0.0 (3/0/0)"
    assert claims["word counts help GSWE, linear"].startswith("-27.0")
    assert claims["GSWE, 4 heads beats PMA"] == "None"
    assert report.claims({}) == []
    assert report.message({}) == ""


def test_the_best_form_is_chosen_on_the_other_folds():
    found = made("mean", [0.7] * 3, points=1)
    found += made("gswe_linear", [0.8, 0.5, 0.5]) + made("gswe_heads4", [0.6] * 3)
    claims = {c.text: str(c.effect) for c in report.claims({"twitter": found})}
    # 0.6, 0.5 and 0.5; the interval is that of folds that share training documents:
    # 4.303 * 0.0577 * sqrt(1/3 + 1/4).
    assert claims["best form of GSWE beats mean"] == "-16.7 ± 19.0 (0/0/3)"
    message = report.message({"twitter": found})
    assert "- Best form of GSWE beats mean: holds on 0" in message


def test_vectors_without_training_stand_beside_networks():
    found = made("mean", [0.7, 0.8], points=1) + made("gswe_linear", [0.6, 0.6])
    found += made("parameter_free", [0.9, 0.8], points=1, epochs=1)
    table = rows(report.vectors_table({"twitter": found}))
    assert table[0] == ["accuracy, %", "twitter"]
    assert dict(table[2:]) == {
        "`SetEmbedder`, logistic regression": "85.0",
        "the same, with the counts as `weight`": "",
        "mean of the words, logistic regression": "",
        "set attention, mean": "75.0",
        "the same, with the counts": "",
        "set attention, PMA": "",
        "set attention, GSWE": "60.0",
        "RepSet": "",
    }


def test_other_settings_are_other_rows(tmp_path):
    found = made("mean", [0.9] * 3) + made("mean", [0.1] * 3, dropout=0.5)
    found += made("logistic", [0.5] * 5)
    table = [row[:2] for row in rows(report.part("twitter", found, tmp_path))]
    assert ["mean", "90.0 ± 0.0"] in table
    assert ["mean, dropout 0.5", "10.0 ± 0.0"] in table
    # Folds are those of what is trained.
    assert "50 epochs, 3 folds" in report.message({"twitter": found})


def test_report_of_the_trials(tmp_path):
    def trial(accuracy, **settings):
        return made("gswe_linear", [accuracy], evaluate="validation", **settings)

    found = trial(0.5, start=0.0) + trial(0.6, start=1.0)
    both = found + trial(0.7, dataset="bbcsport", start=0.0)
    text = report.part("documents_start", both, tmp_path)
    assert rows(text)[0] == ["trial", "twitter", "bbcsport"]
    assert rows(text)[2:] == [["as most", "50.0", "70.0"], ["start=1", "60.0", ""]]
    # Of one data set, readouts are the columns.
    text = report.part("documents_start", found, tmp_path)
    assert rows(text)[0] == ["trial", "gswe_linear"]
    assert "No test part was looked at" in text
    assert not list(tmp_path.iterdir())
