import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.experiments.self_supervised import augmentations, frozen, report
from benchmarks.experiments.self_supervised import run as self_supervised
from benchmarks.experiments.self_supervised.run import DATASETS, Run, execute
from benchmarks.experiments.set_table import SetTable
from benchmarks.readouts import READOUTS
from tests.benchmarks.made import CONTEXT, record
from tests.benchmarks.markdown import rows

TINY = Run(epochs=2, train_sets=48, test_sets=32, points=4)
NAN = math.nan


def metrics(run=TINY, **settings):
    return execute(replace(run, **settings).canonical(), CONTEXT).metrics


def draws():
    return torch.Generator().manual_seed(0)


def test_rotations_turn_each_set_as_a_whole():
    x = torch.randn(1500, 2, generator=draws())
    sets = SetTable(x, 3 * torch.arange(501), torch.arange(500))
    turned = augmentations.rotate_sets(sets, draws(), noise=1.0)
    angle = torch.atan2(turned[:, 1], turned[:, 0]) - torch.atan2(x[:, 1], x[:, 0])
    angle = (angle % (2 * math.pi)).view(500, 3)
    torch.testing.assert_close(turned.norm(dim=1), x.norm(dim=1))
    # All elements of a set by one angle (modulo a full turn), sets by different ones.
    spread = (angle - angle[:, :1] + math.pi) % (2 * math.pi) - math.pi
    assert spread.abs().max() < 1e-4
    # Uniform on [0, 2 pi): each quarter has a quarter of the sets, 4 sigma wide.
    quarters = torch.bincount((angle[:, 0] / (math.pi / 2)).long(), minlength=4)
    assert (quarters - 125).abs().max() < 4 * math.sqrt(500 * 3 / 16)


def test_jitter_and_bending():
    x = torch.full((20000, 2), 5.0)
    one = SetTable(x, torch.tensor([0, 20000]), torch.zeros(1))
    noise = augmentations.jitter_elements(one, draws(), 2.0) - x
    assert noise.mean(dim=0).abs().max() < 0.06
    assert (noise.std(dim=0) - 2).abs().max() < 0.04
    # Bending is affine: of a parallelogram, the differences of corners stay equal.
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    sets = SetTable(corners.repeat(50, 1), 4 * torch.arange(51), torch.arange(50))
    bent = augmentations.bend_and_jitter(sets, draws(), noise=0.0).view(50, 4, 2)
    torch.testing.assert_close(bent[:, 1] - bent[:, 0], bent[:, 3] - bent[:, 2])
    assert len(bent[:, 0].unique(dim=0)) == 50


FAR = 4096.0  # neighbours are told apart far from the origin, too


@pytest.mark.parametrize(
    ("queries", "wanted", "points", "expected"),
    [
        ([1.0, 2.0, 9.0, 4.0], [3, 7, 7, 3], [0.0, 10.0], 0.75),
        ([FAR, FAR + 1 / 1024], [3, 7], [FAR, FAR + 1 / 1024], 1.0),
        ([1.0, NAN, math.inf, 1.0], [3, 3, 3, 3], [0.0, NAN], 0.5),  # has diverged
        ([1.0], [3], [NAN, NAN], 0.0),
    ],
)
def test_nearest_neighbours(queries, wanted, points, expected):
    queries, points = (torch.tensor(values)[:, None] for values in (queries, points))
    labels = torch.tensor([3, 7])
    found = frozen.nearest_neighbor_accuracy(
        queries, torch.tensor(wanted), points, labels
    )
    assert found == expected


def test_vectors_without_a_network_and_what_learns_from_vectors():
    x = torch.tensor([[0.0, 0.0], [2.0, 4.0], [1.0, 1.0]])
    sets = SetTable(x, torch.tensor([0, 2, 3]), torch.tensor([0, 1]))
    found = {n: f(sets, 4, 8, sets) for n, f in frozen.WITHOUT_NETWORK.items()}
    assert found["mean_of_elements"].tolist() == [[1, 2], [1, 1]]
    assert found["size"].tolist() == [[2], [1]]
    assert found["sliced"].shape == (2, 32)
    y = torch.arange(200) % 2
    x = torch.randn(200, 3, generator=draws()) + 8 * y[:, None]
    assert frozen.probes(x, y, x, y) == {"logistic": 1.0, "perceptron": 1.0}
    assert frozen.probes(x, 1 - y, x, y) == {"logistic": 0.0, "perceptron": 0.0}


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("loss", ["simclr", "simsiam"])
def test_every_readout_trains_under_both_losses(readout, loss):
    settings = {"readout": readout, "loss": loss, "points": 8}
    found = metrics(**settings)
    assert 0 <= found["accuracy"] <= 1
    assert metrics(**settings) == found
    assert metrics(**settings, seed=1)["train_loss"] != found["train_loss"]


def test_parameters_are_those_of_backbone_and_readout():
    backbone = (2 * 64 + 64) + (64 * 64 + 64) + (64 + 1)
    for readout, more in {
        "mean": 0,
        "gswe_linear": 4,
        "pma": 4 + 2 + 4 + 2,
        "sliced": -backbone,
    }.items():
        run = replace(TINY, readout=readout, epochs=1, projection=8).canonical()
        assert execute(run, CONTEXT).parameters == backbone + more


def test_training_lowers_the_loss_and_separates_the_circles():
    run = Run(readout="gswe_barycentric", points=4, epochs=20)
    outcome = execute(run, CONTEXT)
    found = outcome.metrics
    assert found["train_loss"] < found["start_loss"] - 0.05
    assert found["accuracy"] > 0.9
    assert outcome.curves["train_loss"][0] > found["train_loss"]
    # Two turns of a set are nearer to each other than two sets.
    assert 0 < found["view_share"] < 0.2 < metrics()["view_share"] < 1


@pytest.mark.parametrize(
    "setting",
    [
        {"backbone": "mlp_128_128_16"},
        {"backbone": "sab_256x3_16"},
        {"normalize": True},
        {"unit_scale": True},
        {"view_elements": 3},
        {"projection": 4},
        {"augmentation": "bend"},
        {"augmentation": "jitter"},
        {"augmentation": "jitter", "noise": 2.0},
        {"draw_data": True},
        {"start": 1.0},
        {"readout": "pma_near_origin"},
        {"readout": "pma"},
    ],
    ids=str,
)
def test_a_setting_makes_a_difference(setting):
    less = dict(list(setting.items())[:-1])
    one, other = metrics(seed=1, **setting), metrics(seed=1, **less)
    assert one["train_loss"] != other["train_loss"]


def test_at_full_scale_pma_starts_as_it_is_built():
    assert metrics(readout="pma_near_origin", start=1.0) == metrics(readout="pma")


def test_controls_are_one_run_whatever_training_would_be():
    idle = {"loss": "simsiam", "learning_rate": 1.0, "normalize": True, "noise": 2.0}
    untrained = Run(epochs=0, points=4)
    assert replace(untrained, **idle).canonical() == untrained.canonical()
    assert set(metrics(epochs=0)) == {"accuracy"}
    free = Run(readout="sliced", points=4, backbone="none", epochs=0)
    assert replace(free, **idle, seed=7, start=1.0).canonical() == free
    assert replace(free, seed=7, draw_data=True).canonical().seed == 7
    assert metrics(free)["accuracy"] > 0.95  # the radius is all there is


def test_jitter_is_scaled_like_the_elements(monkeypatch):
    seen = []
    monkeypatch.setitem(
        self_supervised.AUGMENTATIONS,
        "jitter",
        lambda sets, generator, noise: seen.append(noise) or sets.x,
    )
    metrics(augmentation="jitter", epochs=1, noise=3.0, unit_scale=True)
    x = DATASETS["set_circles"](Path("data"), 0)[0].take(48).x
    assert seen[0] == pytest.approx(3 / x.std().item())


def test_validation_never_looks_at_the_test_sets(monkeypatch):
    train, test = DATASETS["set_circles"](Path("data"), 0)
    broken = replace(test, x=test.x * torch.nan)
    run = Run(epochs=1, points=2, evaluate="validation")
    outcome = execute(run, CONTEXT)
    monkeypatch.setitem(DATASETS, "set_circles", lambda root, seed: (train, broken))
    assert execute(run, CONTEXT) == outcome


def made(readout, points, seed, accuracy, train_loss=3.0, **settings):
    run = Run(readout=readout, points=points, seed=seed, **settings).canonical()
    losses = {"train_loss": train_loss} if run.epochs else {}
    return record(run, accuracy=accuracy, **losses)


def test_other_starts_are_other_rows(tmp_path):
    found = [
        made("pma_near_origin", 4, seed, accuracy, start=start)
        for seed in range(2)
        for start, accuracy in ((0.0, 0.9), (1.0, 0.1))
    ]
    table = rows(report.part("circles", found, tmp_path))
    assert ["PMA, near origin, 4, start 0", "90.0 ± 0.0"] in [row[:2] for row in table]
    assert ["PMA, near origin, 4, start 1", "10.0 ± 0.0"] in [row[:2] for row in table]


def test_report(tmp_path):
    found = [made("sliced", 16, 0, 0.8)]
    for seed, gain in enumerate((0.0, 0.01, 0.02)):
        for points in (2, 4):
            found += [
                made("pma", points, seed, 0.5 + gain, train_loss=9.0),
                made("gswe_linear", points, seed, 0.6 + gain),
                made("gswe_linear", points, seed, 0.7, epochs=0),
            ]
        found.append(made("mean", 1, seed, 0.62 + gain / 2))
    found.append(made("gswe_linear", 4, 7, 0.1, epochs=3))
    found.append(made("gswe_linear", 4, 1000, 0.33, evaluate="validation"))
    text = report.part("circles", found, tmp_path)
    table = rows(text)
    # Every table has its controls.
    assert ["readout", "untrained", "SimCLR", "SimCLR loss", "parameters"] in table
    assert ["GSWE, linear, 4", "70.0 ± 0.0", "61.0 ± 1.0", "3.00", "1,234"] in table
    assert any(row[:2] == ["no network: sliced, 16 x 16", "80.0"] for row in table)
    # Above log(63), the loss is worse than by chance.
    assert ["PMA, 2", "", "51.0 ± 1.0 †", "9.00", "1,234"] in table
    # Another number of epochs is another table; trials have their own.
    assert text.index("epochs=50") < text.index("epochs=3") < text.index("1 trials")
    assert "(circles.png)" in text
    assert (tmp_path / "circles.png").stat().st_size > 1000
    assert "61.0" in report.summary(found)

    text = report.message({"set_circles": found})
    assert "0 of 2 trained cells are above their untrained network" in text
    assert "0 of 5 above the sliced embedding without a network (80.0 %)" in text
    trained = [r for r in found if r["config"]["epochs"]]  # and no controls
    assert "0 of 0 trained cells" in report.message({"set_circles": trained})
    claims = report.claims({"set_circles": found})
    effects = {claim.text: str(claim.effect) for claim in claims}
    assert effects["GSWE, linear beats PMA"] == "+10.0 ± 0.0 (3/0/0)"
    assert effects["GSWE, linear beats mean"] == "-1.5 ± 1.2 (0/0/3)"
    assert effects["training improves GSWE, linear"] == "-9.0 ± 2.5 (0/0/3)"
    # One control for all seeds.
    assert effects["GSWE, linear beats no network: sliced"][:5] == "-19.0"
    assert "GSWE, linear beats PMA, near origin" not in effects
