import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.experiments.self_supervised import augmentations, frozen, report
from benchmarks.experiments.self_supervised import run as self_supervised
from benchmarks.experiments.self_supervised.run import DATASETS, Run
from benchmarks.experiments.set_table import SetTable
from tests.benchmarks.made import outcome, record, rows

NAN = math.nan
WHOLE = "train_sets=null test_sets=null"


def metrics(settings=""):
    return outcome(f"self_supervised {settings}").metrics


def draws():
    return torch.Generator().manual_seed(0)


def test_rotations_turn_each_set_as_a_whole():
    x = torch.randn(1500, 2, generator=draws())
    sets = SetTable(x, 3 * torch.arange(501), torch.arange(500))
    turned = augmentations.rotate_sets(sets, draws(), noise=1.0)
    turns = torch.view_as_complex(turned) / torch.view_as_complex(x)
    turns = turns.view(500, 3)
    torch.testing.assert_close(turns.abs(), torch.ones(500, 3))
    torch.testing.assert_close(turns, turns[:, :1].expand(-1, 3))
    # Uniform on the circle: each quarter has a quarter of the sets, 4 sigma wide.
    quarters = (turns[:, 0].angle() / (math.pi / 2)).floor().long() + 2
    counts = torch.bincount(quarters, minlength=4)
    assert (counts - 125).abs().max() < 4 * math.sqrt(500 * 3 / 16)


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
    wanted, labels = torch.tensor(wanted), torch.tensor([3, 7])
    found = frozen.nearest_neighbor_accuracy(queries, wanted, points, labels)
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


def test_parameters_are_those_of_backbone_and_readout():
    backbone = (2 * 64 + 64) + (64 * 64 + 64) + (64 + 1)
    more = {"mean": 0, "gswe_linear": 4, "pma": 4 + 2 + 4 + 2, "sliced": -backbone}
    for readout, number in more.items():
        found = outcome(f"self_supervised readout={readout} epochs=1 projection=8")
        assert found.parameters == backbone + number


def test_training_lowers_the_loss_and_separates_the_circles():
    run = f"self_supervised {WHOLE} readout=gswe_barycentric epochs=20"
    found, _, curves = outcome(run)
    assert found["train_loss"] < found["start_loss"] - 0.05
    assert found["accuracy"] > 0.9
    assert curves["train_loss"][0] > found["train_loss"]
    # Two turns of a set are nearer to each other than two sets.
    assert 0 < found["view_share"] < 0.2 < metrics()["view_share"] < 1


def test_at_full_scale_pma_starts_as_it_is_built():
    assert metrics("readout=pma_near_origin start=1.0") == metrics("readout=pma")


def test_controls():
    assert set(metrics("epochs=0")) == {"accuracy"}
    # The radius is all there is.
    assert metrics(f"readout=sliced {WHOLE}")["accuracy"] > 0.95


def test_jitter_is_scaled_like_the_elements(monkeypatch):
    seen = []
    monkeypatch.setitem(
        self_supervised.AUGMENTATIONS,
        "jitter",
        lambda sets, generator, noise: seen.append(noise) or sets.x,
    )
    metrics("augmentation=jitter epochs=1 noise=3.0 unit_scale=true")
    x = DATASETS["set_circles"](Path("data"), 0)[0].take(48).x
    assert seen[0] == pytest.approx(3 / x.std().item())


def test_validation_never_looks_at_the_test_sets(monkeypatch):
    train, test = DATASETS["set_circles"](Path("data"), 0)
    broken = replace(test, x=test.x * torch.nan)
    honest = metrics("evaluate=validation")
    monkeypatch.setitem(DATASETS, "set_circles", lambda root, seed: (train, broken))
    assert metrics("evaluate=validation") == honest


def made(readout, accuracies, points=4, loss=3.0, **settings):
    """A record for each seed."""
    run = Run(readout=readout, points=points, **settings).canonical()
    losses = {"train_loss": loss} if run.epochs else {}
    return [
        record(replace(run, seed=seed), accuracy=accuracy, **losses)
        for seed, accuracy in enumerate(accuracies)
    ]


def test_other_starts_are_other_rows(tmp_path):
    found = made("pma_near_origin", [0.9, 0.9], start=0.0)
    found += made("pma_near_origin", [0.1, 0.1], start=1.0)
    table = [row[:2] for row in rows(report.part("circles", found, tmp_path))]
    assert ["PMA, near origin, 4, start 0", "90.0 ± 0.0"] in table
    assert ["PMA, near origin, 4, start 1", "10.0 ± 0.0"] in table


def test_report(tmp_path):
    found = [
        *made("sliced", [0.8], points=16),
        *made("mean", [0.62, 0.625, 0.63]),
        *made("gswe_linear", [0.1], epochs=3),
        *made("gswe_linear", [0.33], evaluate="validation"),
    ]
    for points in (2, 4):
        found += made("pma", [0.5, 0.51, 0.52], points, loss=9.0)
        found += made("gswe_linear", [0.6, 0.61, 0.62], points)
        found += made("gswe_linear", [0.7] * 3, points, epochs=0)
    text = report.part("circles", found, tmp_path)
    for row in (
        # Every table has its controls.
        ["readout", "untrained", "SimCLR", "SimCLR loss", "parameters"],
        ["GSWE, linear, 4", "70.0 ± 0.0", "61.0 ± 1.0", "3.00", "1,234"],
        # Above log(63), the loss is worse than by chance.
        ["PMA, 2", "", "51.0 ± 1.0 †", "9.00", "1,234"],
    ):
        assert row in rows(text)
    sliced = ["no network: sliced, 16 x 16", "80.0"]
    assert sliced in [row[:2] for row in rows(text)]
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
