import math

import pytest
import torch

from gswe_pyg.losses import simclr_loss, simsiam_loss


def views(size: int = 5, channels: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(size)
    z = torch.randn(size, channels, dtype=torch.float64, generator=generator)
    noise = torch.randn(size, channels, dtype=torch.float64, generator=generator)
    return z, z + 0.3 * noise


def simclr_by_loops(z, z_bar, temperature):
    """The paper's equations, one exponential at a time."""

    def s(x, y):
        inner = sum(float(a) * float(b) for a, b in zip(x, y, strict=True))
        return math.exp(inner / temperature)

    total = 0.0
    for one, other in ((z, z_bar), (z_bar, z)):
        for i in range(len(one)):
            across = sum(s(one[i], other[j]) for j in range(len(one)))
            within = sum(s(one[i], one[k]) for k in range(len(one)) if k != i)
            total -= math.log(s(one[i], other[i]) / (across + within))
    return total / (2 * len(z))


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("temperature", [0.1, 0.7])
def test_simclr_loss_is_the_papers_formula(size, temperature):
    z, z_bar = views(size)
    expected = simclr_by_loops(z, z_bar, temperature)
    loss = simclr_loss(z, z_bar, temperature)
    assert loss.dim() == 0
    assert float(loss) == pytest.approx(expected, rel=1e-12)


def test_simclr_loss_has_the_papers_temperature():
    z, z_bar = views()
    assert float(simclr_loss(z, z_bar)) == pytest.approx(simclr_by_loops(z, z_bar, 0.1))


def test_simclr_loss_normalizes_on_request():
    z, z_bar = views()
    unit = z / z.norm(dim=1, keepdim=True), z_bar / z_bar.norm(dim=1, keepdim=True)
    expected = simclr_by_loops(*unit, 0.1)
    assert float(simclr_loss(z, z_bar, normalize=True)) == pytest.approx(expected)
    assert float(simclr_loss(z, z_bar)) != pytest.approx(expected)


def test_simclr_loss_survives_large_inner_products():
    z, z_bar = views()
    z = (1e3 * z).float().requires_grad_()
    loss = simclr_loss(z, 1e3 * z_bar.float())
    loss.backward()
    assert loss.isfinite()
    assert z.grad.isfinite().all()


def test_simclr_loss_gradient():
    z, z_bar = (view.requires_grad_() for view in views())
    assert torch.autograd.gradcheck(simclr_loss, (z, z_bar))


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_simsiam_loss_is_the_papers_formula(p):
    z, z_bar = views()
    expected = 0.0
    for x, y in ((z, z_bar), (z_bar, z)):
        for i in range(len(z)):
            pairs = zip(x[i], y[i], strict=True)
            expected += sum(abs(float(a) - float(b)) ** p for a, b in pairs)
    loss = simsiam_loss(z, z_bar, p)
    assert float(loss) == pytest.approx(expected / (2 * len(z)), rel=1e-12)


def test_simsiam_loss_uses_the_euclidean_norm_by_default():
    z, z_bar = views()
    assert torch.equal(simsiam_loss(z, z_bar), simsiam_loss(z, z_bar, p=2))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_simsiam_loss_stops_the_gradient_at_the_second_argument(p):
    z, z_bar = (view.requires_grad_() for view in views())
    simsiam_loss(z, z_bar, p).backward()
    # Only D(z, stopgrad(z_bar)) may move z: half of what the loss without the
    # stop-gradient would send back.
    distance = (z.detach() - z_bar.detach()).requires_grad_()
    (distance.abs() ** p).sum().div(2 * len(z)).backward()
    torch.testing.assert_close(z.grad, distance.grad)
    torch.testing.assert_close(z_bar.grad, -distance.grad)


def test_simsiam_loss_moves_one_view_only_when_the_other_is_frozen():
    z, z_bar = views()
    z_bar.requires_grad_()
    simsiam_loss(z, z_bar).backward()
    torch.testing.assert_close(z_bar.grad, (z_bar.detach() - z) / len(z))


@pytest.mark.parametrize("loss", [simclr_loss, simsiam_loss])
@pytest.mark.parametrize(
    ("z", "z_bar", "message"),
    [
        (torch.ones(3), torch.ones(3, 1), "'z' must be a matrix"),
        (torch.ones(3, 1), torch.ones(3, 1, 1), "'z_bar' must be a matrix"),
        (torch.ones(3, 2), torch.ones(4, 2), "same sets in the same order"),
        (torch.ones(3, 2), torch.ones(3, 1), "same sets in the same order"),
        (torch.ones(0, 2), torch.ones(0, 2), "at least one set"),
        (torch.ones(3, 2).long(), torch.ones(3, 2), "floating-point"),
    ],
)
def test_losses_reject_views_that_do_not_match(loss, z, z_bar, message):
    with pytest.raises(ValueError, match=message):
        loss(z, z_bar)


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan")])
def test_simclr_loss_rejects_temperature(temperature):
    with pytest.raises(ValueError, match="'temperature' must be positive"):
        simclr_loss(*views(), temperature)


@pytest.mark.parametrize("p", [0.5, -1, float("nan")])
def test_simsiam_loss_rejects_order(p):
    with pytest.raises(ValueError, match="'p' must be at least 1"):
        simsiam_loss(*views(), p)


def test_simsiam_loss_rejects_an_infinite_order():
    with pytest.raises(ValueError, match=r"'p' must be finite \(got inf\)"):
        simsiam_loss(*views(), float("inf"))
