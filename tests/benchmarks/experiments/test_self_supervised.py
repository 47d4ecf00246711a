from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.engine.grid import Context
from benchmarks.experiments.self_supervised import report
from benchmarks.experiments.self_supervised import run as self_supervised
from benchmarks.experiments.self_supervised.run import DATASETS, Run, execute
from benchmarks.experiments.set_table import SetTable
from benchmarks.readouts import READOUTS, Shape
from tests.benchmarks.markdown import rows

TINY = Run(epochs=2, train_sets=48, test_sets=32, points=4)
CONTEXT = Context(torch.device("cpu"), Path("data"))


def metrics(run=TINY, **settings):
    return execute(replace(run, **settings).canonical(), CONTEXT).metrics


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("loss", ["simclr", "simsiam"])
def test_every_readout_trains_under_both_losses(readout, loss):
    found = metrics(readout=readout, loss=loss, points=8)
    assert 0 <= found["accuracy"] <= 1
    assert metrics(readout=readout, loss=loss, points=8) == found
    other = metrics(readout=readout, loss=loss, points=8, seed=1)
    assert other["train_loss"] != found["train_loss"]


def test_parameters_are_those_of_backbone_and_readout():
    backbone = (2 * 64 + 64) + (64 * 64 + 64) + (64 + 1)

    def count(readout, **settings):
        run = replace(TINY, readout=readout, epochs=1, **settings).canonical()
        return execute(run, CONTEXT).parameters

    assert count("mean") == backbone
    assert count("mean", projection=8) == backbone  # it goes with the training
    assert count("gswe_linear") == count("gswe_barycentric") == backbone + 4
    assert count("pma") == count("pma_near_origin") == backbone + 4 + 2 + 4 + 2
    assert count("sliced") == 0


def test_barycentric_gswe_with_one_point_learns_as_mean_pooling_does():
    # The losses of SimSiam and the neighbours depend on differences of embeddings
    # alone, from which the reference drops out.
    settings = {"loss": "simsiam", "points": 1, "epochs": 5}
    mean = metrics(readout="mean", **settings)
    gswe = metrics(readout="gswe_barycentric", **settings)
    assert gswe["train_loss"] == pytest.approx(mean["train_loss"], rel=1e-4)
    # A neighbour may change where two are as near up to rounding.
    assert gswe["accuracy"] == pytest.approx(mean["accuracy"], abs=0.07)


def test_training_lowers_the_loss_and_separates_the_circles():
    found = metrics(Run(readout="gswe_barycentric", points=4, epochs=20))
    assert found["train_loss"] < found["start_loss"] - 0.05
    assert found["accuracy"] > 0.9
    # Two turns of a set are nearer to each other than two sets.
    assert 0 < found["view_share"] < 0.2 < metrics()["view_share"] < 1


def test_a_setting_makes_a_difference():
    plain = metrics()
    for setting in (
        {"normalize": True},
        {"unit_scale": True},
        {"view_elements": 3},
        {"projection": 4},
        {"augmentation": "bend"},
        {"draw_data": True, "seed": 1},
    ):
        other = metrics(seed=1) if "seed" in setting else plain
        assert metrics(**setting)["train_loss"] != other["train_loss"]
    jitter = {"augmentation": "jitter"}
    assert metrics(noise=2.0, **jitter) != metrics(**jitter)


def test_controls_are_one_run_whatever_training_would_be():
    idle = {"loss": "simsiam", "learning_rate": 1.0, "normalize": True, "noise": 2.0}
    untrained = Run(epochs=0, points=4)
    assert replace(untrained, **idle).canonical() == untrained.canonical()
    assert set(metrics(epochs=0)) == {"accuracy"}
    free = Run(readout="sliced", points=4, backbone="none", epochs=0)
    assert replace(free, **idle, seed=7, start=1.0).canonical() == free
    assert replace(free, seed=7, draw_data=True).canonical().seed == 7
    assert metrics(free)["accuracy"] > 0.95  # the radius is all there is
    with pytest.raises(ValueError, match="epochs must be at least 0"):
        Run(epochs=-1)


def test_jitter_is_scaled_like_the_elements(monkeypatch):
    seen = []
    monkeypatch.setitem(
        self_supervised.AUGMENTATIONS,
        "jitter",
        lambda x, index, num_sets, generator, noise: seen.append(noise) or x,
    )
    metrics(augmentation="jitter", epochs=1, noise=3.0, unit_scale=True)
    x = DATASETS["set_circles"](Path("data"), 0)[0].take(48).x
    assert seen[0] == pytest.approx(3 / x.std().item())


@pytest.mark.parametrize("readout", ["mean", "pma", "gswe_linear"])
def test_the_architecture_of_point_cloud_mnist_trains(monkeypatch, readout):
    """Ten kinds of clouds in a plane of 28 by 28 in place of the real files."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(40) % 10
    sizes = torch.randint(20, 60, (40,), generator=generator)
    ptr = torch.cat([torch.zeros(1).long(), sizes.cumsum(0)])
    x = torch.randn(int(ptr[-1]), 2, generator=generator)
    clouds = SetTable(x + 2 * y.repeat_interleave(sizes)[:, None], ptr, y)
    monkeypatch.setitem(DATASETS, "point_cloud_mnist", lambda root, seed: (clouds,) * 2)
    run = Run(dataset="point_cloud_mnist", augmentation="jitter", readout=readout)
    run = replace(run, backbone="sab_256x3_16", points=4, epochs=1, batch_size=20)
    outcome = execute(run, CONTEXT)
    assert 0 <= outcome.metrics["accuracy"] <= 1
    assert outcome.parameters > 4 * 256 * 256


def test_embed_gives_every_set_its_row_whatever_the_chunks(monkeypatch):
    sets = DATASETS["set_circles"](Path("data"), 0)[1]
    torch.manual_seed(0)
    readout = READOUTS["gswe_linear"].build(Shape(2, 4))
    model = self_supervised.SetModel(torch.nn.Identity(), readout)
    model.backbone.forward = lambda x, *sets: x
    whole = self_supervised.embed(model, sets, CONTEXT.device)
    monkeypatch.setattr(self_supervised, "_CHUNK", 100)
    torch.testing.assert_close(
        self_supervised.embed(model, sets, CONTEXT.device), whole
    )
    assert whole.shape == (len(sets), 8)


def test_the_start_scales_the_constants_of_a_readout():
    for readout in ("gswe_linear", "pma_near_origin"):
        one, other = (metrics(readout=readout, start=s, epochs=1) for s in (0.0, 1.0))
        assert one["train_loss"] != other["train_loss"]
    # At full scale, PMA starts as its constructor leaves it.
    assert other == metrics(readout="pma", epochs=1)
    # What no setting can change is one run.
    assert replace(TINY, readout="pma", start=0.1).canonical().start == 1.0


def test_validation_never_looks_at_the_test_sets(monkeypatch):
    train, test = DATASETS["set_circles"](Path("data"), 0)
    broken = replace(test, x=test.x * torch.nan)
    run = Run(epochs=1, points=2, evaluate="validation")
    outcome = execute(run, CONTEXT)
    monkeypatch.setitem(DATASETS, "set_circles", lambda root, seed: (train, broken))
    assert execute(run, CONTEXT) == outcome


def record(readout, points, seed, accuracy, train_loss=3.0, **settings):
    run = Run(readout=readout, points=points, seed=seed, **settings).canonical()
    losses = {"train_loss": train_loss} if run.epochs else {}
    return {
        "id": run.identifier(),
        "config": run.settings(),
        "metrics": {"accuracy": accuracy, **losses},
        "parameters": 4417,
        "commit": "abc",
    }


@pytest.fixture
def records():
    found = [record("sliced", 16, 0, 0.8)]
    for seed, gain in enumerate((0.0, 0.01, 0.02)):
        for points in (2, 4):
            found += [
                record("pma", points, seed, 0.5 + gain, train_loss=9.0),
                record("gswe_linear", points, seed, 0.6 + gain),
                record("gswe_linear", points, seed, 0.7, epochs=0),
            ]
        found.append(record("mean", 1, seed, 0.62 + gain / 2))
    found.append(record("gswe_linear", 4, 7, 0.1, epochs=3))
    found.append(record("gswe_linear", 4, 1000, 0.33, evaluate="validation"))
    return {"set_circles": found}


def test_tables_have_their_controls(records, tmp_path):
    text = report.part("circles", records["set_circles"], tmp_path)
    table = rows(text)
    assert ["readout", "untrained", "SimCLR", "SimCLR loss", "parameters"] in table
    assert ["GSWE, linear, 4", "70.0 ± 0.0", "61.0 ± 1.0", "3.00", "4,417"] in table
    # Above log(63), the loss is worse than by chance.
    assert ["PMA, 2", "", "51.0 ± 1.0 †", "9.00", "4,417"] in table
    assert any(row[:2] == ["no network: sliced, 16 x 16", "80.0"] for row in table)
    # Another number of epochs is another table; trials have their own.
    assert text.index("epochs=50") < text.index("epochs=3") < text.index("1 trials")
    assert "(circles.png)" in text
    assert (tmp_path / "circles.png").stat().st_size > 1000
    assert "61.0" in report.summary(records["set_circles"])


def test_the_message_counts(records):
    text = report.message(records)
    assert "0 of 2 trained cells are above their untrained network" in text
    assert "0 of 5 above the sliced embedding without a network (80.0 %)" in text
    assert ["Set-Circles", "GSWE, linear, 4", "70.0", "61.0", ""] in rows(text)


def test_claims_are_computed(records):
    found = {c.text: c.effect for c in report.claims(records) if c.effect}
    assert str(found["GSWE, linear beats PMA"]) == "+10.0 ± 0.0 (3/0/0)"
    assert str(found["GSWE, linear beats mean"]) == "-1.5 ± 1.2 (0/0/3)"
    assert str(found["training improves GSWE, linear"]) == "-9.0 ± 2.5 (0/0/3)"
    # One control for all seeds.
    assert str(found["GSWE, linear beats no network: sliced"])[:5] == "-19.0"
    assert "GSWE, linear beats PMA, near origin" not in found
