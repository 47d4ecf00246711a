"""What heads have learned, in words: against weights that are known statistics."""

import builtins

import numpy as np
import pytest
import torch

from gswe_pyg import GSWEAggregation
from gswe_pyg.aggr.l_moments import l_moment_weights


def readout_with(weight, num_points, extremes):
    """One head, two channels, with the weight of the points, minimum and maximum."""
    readout = GSWEAggregation(2, None, num_points, heads=1, extremes=extremes)
    with torch.no_grad():
        readout.head_weight[:] = torch.as_tensor(weight, dtype=torch.float)
    return readout


@pytest.mark.parametrize("extremes", [False, True])
@pytest.mark.parametrize("num_points", [4, 8, 9])
def test_the_start_has_the_names_of_the_l_moments(num_points, extremes):
    readout = GSWEAggregation(5, None, num_points, heads=4, extremes=extremes)
    found = readout.describe()
    assert found.best == [
        [name] * 5 for name in ("mean", "spread", "skewness", "tails")
    ]
    for head, name in enumerate(("mean", "spread", "skewness", "tails")):
        score = found.scores[head, :, found.statistics.index(name)]
        torch.testing.assert_close(score, torch.ones(5, dtype=torch.double))


@pytest.mark.parametrize("extremes", [False, True])
@pytest.mark.parametrize("num_points", [3, 8])
@pytest.mark.parametrize(("name", "reduce"), [("max", "amax"), ("min", "amin")])
def test_weight_on_an_extreme(name, reduce, num_points, extremes):
    """The readout that is described so gives what it is called, where it can."""
    weight = torch.zeros(num_points + 2 * extremes)
    # Stored as points, minimum, maximum; points ascend.
    place = {"max": -1, "min": -2 if extremes else 0}[name]
    weight[place] = 0.3
    readout = readout_with(weight, num_points, extremes)
    assert readout.describe().best == [[name] * 2]
    x = torch.randn(num_points, 2)  # as many as points: each point is an element
    out = readout(x, ptr=torch.tensor([0, num_points]))
    torch.testing.assert_close(out[0], 0.3 * getattr(x, reduce)(dim=0))


@pytest.mark.parametrize("num_points", [3, 5, 6])
def test_weight_on_the_middle_is_the_median(num_points):
    x = torch.randn(num_points, 2)
    weight = torch.zeros(num_points)
    weight[[(num_points - 1) // 2, num_points // 2]] = 1.0
    weight /= weight.sum()
    readout = readout_with(weight, num_points, False)
    found = readout.describe()
    assert found.best == [["median"] * 2]
    out = readout(x, ptr=torch.tensor([0, num_points]))
    expected = torch.from_numpy(np.median(x.numpy(), axis=0))
    torch.testing.assert_close(out[0], expected)


def test_the_mean_difference_is_the_spread():
    """L-scale is half of Gini's mean difference: an independent way to its weights."""
    num_points = 7
    place = torch.arange(num_points)
    mean_difference = (2 * place - num_points + 1.0) / (num_points * (num_points - 1))
    readout = readout_with(mean_difference, num_points, False)
    found = readout.describe()
    assert found.best == [["spread"] * 2]
    x = torch.randn(num_points, 2)
    pairs = (x[:, None] - x[None]).abs().sum(dim=(0, 1))
    out = readout(x, ptr=torch.tensor([0, num_points]))[0]
    torch.testing.assert_close(out, pairs / (num_points * (num_points - 1)) / 2)


def test_moving_from_the_mean_to_the_maximum():
    """Half way in squared weight, the score of both is the root of a half."""
    mean = torch.cat([torch.full((8,), 1 / 8), torch.zeros(2)])
    maximum = torch.eye(10)[-1] * mean.norm()
    shares = torch.linspace(0, 1, 5)[:, None]
    weights = (1 - shares).sqrt() * mean + shares.sqrt() * maximum
    scores = []
    for weight in weights:
        found = readout_with(weight, 8, True).describe()
        scores.append(found.scores[0, 0])
    scores = torch.stack(scores)
    names = found.statistics
    expected = shares.double().flatten().sqrt()
    torch.testing.assert_close(
        scores[:, names.index("max")], expected, check_dtype=False, rtol=0, atol=1e-7
    )
    torch.testing.assert_close(scores[:, names.index("mean")], expected.flip(0))


def test_scores_have_a_sign_and_no_scale():
    weight = torch.from_numpy(l_moment_weights(2, 8))[1]
    for factor in (1e-20, -3.0, 1e20):
        found = readout_with(factor * weight, 8, False).describe()
        assert found.best == [["spread"] * 2]
        score = found.scores[0, 0, found.statistics.index("spread")]
        assert score.item() == pytest.approx(np.sign(factor))


def test_what_is_like_nothing_is_mixed():
    weight = torch.zeros(8)
    weight[[1, 6]] = torch.tensor([1.0, 0.3])
    assert readout_with(weight, 8, False).describe().best == [["mixed"] * 2]
    zero = readout_with(torch.zeros(8), 8, False).describe()
    assert zero.best == [["mixed"] * 2]
    assert torch.equal(zero.scores, torch.zeros_like(zero.scores))


@pytest.mark.parametrize("extremes", [False, True])
@pytest.mark.parametrize("num_points", [1, 2, 3])
def test_few_points(num_points, extremes):
    heads = num_points
    found = GSWEAggregation(2, None, num_points, heads=heads, extremes=extremes)
    names = ["mean", "spread", "skewness"][:heads]
    assert found.describe().best == [[name] * 2 for name in names]


def test_describing_changes_nothing_and_holds_no_graph():
    readout = GSWEAggregation(3, heads=1).half()
    found = readout.describe()
    assert not found.weights.requires_grad
    found.weights.zero_()
    assert readout.head_weight.abs().sum() > 0


def test_rows_and_text():
    readout = GSWEAggregation(2, heads=1, extremes=True)
    with torch.no_grad():
        readout.head_weight[0, 1] = torch.eye(10)[-1]
    found = readout.describe()
    assert [(r["head"], r["channel"], r["like"]) for r in found.rows()] == [
        (0, 0, "mean"),
        (0, 1, "max"),
    ]
    assert found.rows()[1]["max"] == 1.0
    assert str(found).splitlines() == [
        "head 0: 1 of 2 channels mean-like, score 1.00",
        "head 0: 1 of 2 channels max-like, score 1.00",
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_counted(value):
    readout = GSWEAggregation(3, heads=1)
    with torch.no_grad():
        readout.head_weight[0, 1, 2] = value
    found = readout.describe()
    assert found.best == [["mean", "not finite", "mean"]]
    assert str(found).splitlines() == [
        "head 0: 2 of 3 channels mean-like, score 1.00",
        "head 0: 1 of 3 channels not finite, score nan",
    ]


def test_without_heads_there_is_nothing_to_describe():
    with pytest.raises(ValueError, match=r"'describe' needs heads: .* 'heads=1'"):
        GSWEAggregation(3).describe()


def test_the_picture_has_a_row_for_each_channel():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    readout = GSWEAggregation(3, None, 4, heads=2, extremes=True)
    with torch.no_grad():
        readout.head_weight[0, 1] = torch.eye(6)[-1]
    found = readout.describe()
    axes = found.plot()
    drawn = np.asarray(axes.images[0].get_array())
    expected = found.weights[0, [0, 2, 1]].numpy()  # channels alike side by side
    np.testing.assert_allclose(drawn, expected)
    assert [t.get_text() for t in axes.get_yticklabels()] == ["mean (2)", "max (1)"]
    ticks = [t.get_text() for t in axes.get_xticklabels()]
    assert ticks == ["min", "12", "38", "62", "88", "max"]
    assert found.plot(head=1, ax=axes) is axes
    with pytest.raises(ValueError, match=r"'head' must be between 0 and 1 \(got 2\)"):
        found.plot(head=2)
    matplotlib.pyplot.close("all")


def test_the_picture_names_the_extra_where_matplotlib_is_missing(monkeypatch):
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'gswe-pyg\[plot\]'"):
        GSWEAggregation(3, heads=1).describe().plot()
