from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.engine.grid import Context
from benchmarks.experiments.self_supervised import run as self_supervised
from benchmarks.experiments.self_supervised.report import claims, part, summary
from benchmarks.experiments.self_supervised.run import DATASETS, Run, execute
from benchmarks.experiments.self_supervised.set_table import SetTable
from benchmarks.readouts import READOUTS, Shape
from tests.benchmarks.markdown import rows

TINY = Run(epochs=2, train_sets=48, test_sets=32, points=4)


CONTEXT = Context(torch.device("cpu"), Path("data"))


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("loss", ["simclr", "simsiam"])
def test_every_readout_trains_under_both_losses(readout, loss):
    run = replace(TINY, readout=readout, loss=loss, points=8)
    outcome = execute(run, CONTEXT)
    assert 0 <= outcome.metrics["accuracy"] <= 1
    again = execute(run, CONTEXT)
    assert again == outcome
    other = execute(replace(run, seed=1), CONTEXT)
    assert other.metrics["train_loss"] != outcome.metrics["train_loss"]


def test_parameters_are_those_of_backbone_and_readout():
    backbone = (2 * 64 + 64) + (64 * 64 + 64) + (64 + 1)

    def count(readout):
        return execute(replace(TINY, readout=readout, epochs=1), CONTEXT).parameters

    assert count("mean") == backbone
    assert count("gswe_linear") == count("gswe_barycentric") == backbone + 4
    assert count("pma") == count("pma_near_origin") == backbone + 4 + 2 + 4 + 2


def test_barycentric_gswe_with_one_point_learns_as_mean_pooling_does():
    # The losses of SimSiam and the neighbours depend on differences of embeddings
    # alone, from which the reference drops out.
    def outcome(readout):
        run = replace(TINY, readout=readout, loss="simsiam", points=1, epochs=5)
        return execute(run, CONTEXT).metrics

    mean, gswe = outcome("mean"), outcome("gswe_barycentric")
    assert gswe["train_loss"] == pytest.approx(mean["train_loss"], rel=1e-4)
    # A neighbour may change where two are as near up to rounding.
    assert gswe["accuracy"] == pytest.approx(mean["accuracy"], abs=0.07)
    assert outcome("gswe_linear")["train_loss"] != pytest.approx(
        mean["train_loss"], rel=1e-2
    )


def test_training_lowers_the_loss_and_separates_the_circles():
    run = Run(readout="gswe_barycentric", points=4, epochs=1)
    first = execute(run, CONTEXT).metrics["train_loss"]
    outcome = execute(replace(run, epochs=20), CONTEXT)
    assert outcome.metrics["train_loss"] < first - 0.05
    assert outcome.metrics["accuracy"] > 0.9


@pytest.fixture
def digits(monkeypatch):
    """Ten kinds of clouds in a plane of 28 by 28 in place of the real files."""

    def part(num_sets, seed):
        generator = torch.Generator().manual_seed(seed)
        y = torch.arange(num_sets) % 10
        sizes = torch.randint(20, 60, (num_sets,), generator=generator)
        ptr = torch.cat([torch.zeros(1).long(), sizes.cumsum(0)])
        x = torch.randn(int(ptr[-1]), 2, generator=generator)
        return SetTable(x + 2 * y.repeat_interleave(sizes)[:, None], ptr, y)

    monkeypatch.setitem(
        DATASETS, "point_cloud_mnist", lambda root: (part(40, 0), part(20, 1))
    )


@pytest.mark.parametrize("readout", ["mean", "pma", "gswe_linear"])
def test_the_architecture_of_point_cloud_mnist_trains(digits, readout):
    run = Run(
        dataset="point_cloud_mnist",
        backbone="sab_256x3_16",
        augmentation="jitter",
        readout=readout,
        points=4,
        epochs=1,
        batch_size=20,
        learning_rate=1e-3,
    )
    outcome = execute(run, CONTEXT)
    assert 0 <= outcome.metrics["accuracy"] <= 1
    assert outcome.parameters > 4 * 256 * 256


def test_embed_gives_every_set_its_row_whatever_the_chunks(monkeypatch):
    sets = DATASETS["set_circles"](Path("data"))[1]
    torch.manual_seed(0)
    readout = READOUTS["gswe_linear"].build(Shape(2, 4))
    model = self_supervised.SetModel(torch.nn.Identity(), readout)
    model.backbone.forward = lambda x, *sets: x
    whole = self_supervised.embed(model, sets, CONTEXT.device)
    monkeypatch.setattr(self_supervised, "_CHUNK", 100)
    again = self_supervised.embed(model, sets, CONTEXT.device)
    torch.testing.assert_close(again, whole)
    assert whole.shape == (len(sets), 8)


def test_the_start_scales_the_constants_of_a_readout():
    def loss(readout, start):
        run = replace(TINY, readout=readout, start=start, epochs=1).canonical()
        return execute(run, CONTEXT).metrics["train_loss"]

    for readout in ("gswe_linear", "gswe_barycentric", "pma_near_origin"):
        assert loss(readout, 0.0) != loss(readout, 1.0)
    # At full scale, PMA starts as its constructor leaves it.
    assert loss("pma_near_origin", 1.0) == loss("pma", 1.0)
    readout = READOUTS["gswe_linear"].build(Shape(8, 64, 2))
    READOUTS["gswe_linear"].move_to_start(readout, 3.0)
    assert 2.5 < readout.points.std() < 3.5  # of 1,024 values
    # What no setting can change is one run.
    assert replace(TINY, readout="pma", start=0.1).canonical().start == 1.0


def test_validation_never_looks_at_the_test_sets(monkeypatch):
    train, test = DATASETS["set_circles"](Path("data"))
    broken = replace(test, x=test.x * torch.nan)
    monkeypatch.setitem(DATASETS, "set_circles", lambda root: (train, broken))
    run = Run(epochs=1, points=2, evaluate="validation")
    outcome = execute(run, CONTEXT)
    monkeypatch.setitem(DATASETS, "set_circles", lambda root: (train, test))
    assert execute(run, CONTEXT) == outcome
    with pytest.raises(
        ValueError, match="unknown evaluate 'train'; there are test, validation"
    ):
        Run(evaluate="train")


def record(readout, points, seed, accuracy, loss="simclr", epochs=50, start=0.0):
    return {
        "id": "0",
        "config": {
            "readout": readout,
            "points": points,
            "seed": seed,
            "loss": loss,
            "epochs": epochs,
            "start": start,
            "train_sets": None,
        },
        "seed": seed,
        "metrics": {"accuracy": accuracy},
        "cpu_seconds": 2.0,
        "parameters": 4417,
        "commit": "abc",
    }


def test_report(tmp_path):
    records = [
        record("mean", 1, 0, 0.6),
        record("mean", 1, 1, 0.8),
        record("pma", 4, 0, 0.5),
        record("pma", 4, 1, 0.7),
        record("gswe_linear", 4, 0, 0.9),
        record("gswe_linear", 4, 1, 1.0),
        record("gswe_linear", 4, 0, 0.25, epochs=3),
    ]
    text = part("circles", records, tmp_path)
    table = rows(text)
    assert ["mean", "70.0 ± 14.1", ""] in table
    assert ["GSWE, linear", "", "95.0 ± 7.1"] in table
    assert ["SimCLR: (GSWE, linear) - (PMA)", "", "+35.0 ± 63.5 (2/0/0)"] in table
    assert "4,417" in text
    assert "epochs=50" in text
    # Another number of epochs is another part with its own figure.
    assert text.index("epochs=50") < text.index("epochs=3;") < text.index("25.0")
    for figure in ("circles.png", "circles-2.png"):
        assert f"({figure})" in text
        assert (tmp_path / figure).stat().st_size > 1000


def test_report_tells_starts_apart(tmp_path):
    records = [
        record("mean", 1, 0, 0.6, start=1.0),
        record("gswe_linear", 4, 0, 0.9, start=0.0),
        record("gswe_linear", 4, 0, 0.7, start=0.1),
    ]
    text = part("start", records, tmp_path)
    table = rows(text)
    assert ["mean", "60.0", ""] in table
    assert ["GSWE, linear, start 0", "", "90.0"] in table
    assert ["GSWE, linear, start 0.1", "", "70.0"] in table


def test_the_summary_is_for_a_terminal():
    text = summary([record("mean", 1, 0, 0.6), record("gswe_linear", 4, 0, 0.9)])
    assert "SimCLR" in text
    assert "90.0" in text
    assert "![" not in text


def test_claims_are_computed():
    records = []
    for seed, shift in enumerate((0.0, 0.01, 0.02)):
        for points in (2, 4):
            records.append(record("pma", points, seed, 0.5 + shift))
            records.append(record("gswe_linear", points, seed, 0.6 + shift))
        records.append(record("mean", 1, seed, 0.62 + shift / 2))
    records.append(record("gswe_linear", 4, 7, 0.1))  # nobody else has this seed
    found = {c.text: c for c in claims({"set_circles": records}) if c.effect}
    beats_pma = found["GSWE (2 points or more) beats PMA"]
    assert beats_pma.data == "set_circles, SimCLR"
    assert str(beats_pma.effect) == "+10.0 ± 0.0 (3/0/0)"
    assert beats_pma.effect.verdict() == "holds"
    beats_mean = found["GSWE (2 points or more) beats mean pooling"]
    assert str(beats_mean.effect) == "-1.5 ± 1.2 (0/0/3)"
    assert beats_mean.effect.verdict() == "fails"
    assert "PMA with one seed beats mean pooling" not in found
