import pytest
import torch

from gswe_pyg.ops.interpolation import INTERPOLATIONS
from gswe_pyg.ops.weighted import weighted_terms


def masses():
    # Two sets, of four elements and of two, in three slices; padded to four.
    generator = torch.Generator().manual_seed(0)
    mass = torch.rand(2, 3, 4, generator=generator, dtype=torch.float64) + 0.1
    mass[1, :, 2:] = 0
    return mass, torch.tensor([4, 2])


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("num_points", [1, 2, 5])
def test_weighted_terms_are_averages(num_points, interpolation):
    mass, sizes = masses()
    column, point, weight, _ = weighted_terms(mass, sizes, num_points, interpolation)
    total = torch.zeros(2, 3, num_points, dtype=torch.float64)
    total.scatter_add_(-1, point, weight)
    torch.testing.assert_close(total, torch.ones_like(total))
    assert bool((column[1][weight[1] != 0] < 2).all())  # never the padding
    if interpolation != "pswe":  # which extrapolates
        assert bool((weight >= 0).all())


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("num_points", [1, 2, 5])
def test_mass_gradient(num_points, interpolation):
    mass, sizes = masses()
    terms = weighted_terms(mass, sizes, num_points, interpolation)
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(mass.shape, generator=generator, dtype=torch.float64)
    grad = torch.randn(2, 3, num_points, generator=generator, dtype=torch.float64)

    def loss(mass):
        column, point, weight, _ = weighted_terms(
            mass, sizes, num_points, interpolation
        )
        return (values.gather(-1, column) * weight * grad.gather(-1, point)).sum()

    picked = values.gather(-1, terms.column) * grad.gather(-1, terms.point)
    actual = terms.mass_gradient(picked)
    step = 1e-6
    for place in [(0, 0, 0), (0, 1, 2), (0, 2, 3), (1, 0, 0), (1, 2, 1)]:
        shift = torch.zeros_like(mass)
        shift[place] = step
        expected = (loss(mass + shift) - loss(mass - shift)) / (2 * step)
        torch.testing.assert_close(actual[place], expected, rtol=1e-5, atol=1e-6)
    # Only the shares count: twice all masses is the same.
    torch.testing.assert_close(
        (actual * mass).sum(-1), torch.zeros(2, 3, dtype=torch.float64)
    )


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize(
    "mass", [[1, 1e-20, 1e-20, 1], [1, 1, 1e-20, 1e-20], [1e-20, 1e-20, 1, 1]]
)
def test_masses_that_vanish_beside_the_total(mass, interpolation):
    mass = torch.tensor([[mass]], dtype=torch.float64)
    for num_points in (1, 2, 3, 4, 7):
        terms = weighted_terms(mass, torch.tensor([4]), num_points, interpolation)
        assert bool(terms.weight.isfinite().all())
        grad = terms.mass_gradient(torch.ones_like(terms.weight))
        assert bool(grad.isfinite().all())
