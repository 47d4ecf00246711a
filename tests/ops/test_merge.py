import torch

from gswe_pyg.ops.merge import merge_breakpoints


def test_merge_breakpoints():
    a = torch.tensor([[2.0, 6.0], [3.0, 6.0]])
    b = torch.tensor([[1.0, 2.0, 6.0], [2.0, 4.0, 6.0]])
    width, step_a, step_b, origin = merge_breakpoints(a, b)
    assert width.tolist() == [[1, 1, 0, 4, 0], [2, 1, 1, 2, 0]]
    assert origin.tolist() == [[2, 0, 3, 1, 4], [2, 0, 3, 1, 4]]
    has_width = width > 0
    assert step_a[has_width].tolist() == [0, 0, 1, 0, 0, 1, 1]
    assert step_b[has_width].tolist() == [0, 1, 2, 0, 1, 1, 2]
    # Pieces of width zero point to something that exists.
    assert int(step_a.max()) == 1
    assert int(step_b.max()) == 2


def test_merge_breakpoints_integrates_the_product_of_step_functions():
    generator = torch.Generator().manual_seed(0)
    a = torch.rand(4, 5, generator=generator, dtype=torch.float64).cumsum(-1)
    b = torch.rand(4, 3, generator=generator, dtype=torch.float64).cumsum(-1)
    a, b = a / a[:, -1:], b / b[:, -1:]
    width, step_a, step_b, _ = merge_breakpoints(a, b)
    torch.testing.assert_close(width.sum(-1), torch.ones(4, dtype=torch.float64))

    f, g = torch.randn(4, 5).double(), torch.randn(4, 3).double()
    integral = (width * f.gather(-1, step_a) * g.gather(-1, step_b)).sum(-1)
    # The midpoint rule, on a grid that is fine compared to the steps.
    t = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    t = t.repeat(4, 1)
    values = f.gather(-1, torch.searchsorted(a, t).clamp(max=4))
    values = values * g.gather(-1, torch.searchsorted(b, t).clamp(max=2))
    torch.testing.assert_close(integral, values.mean(-1), atol=1e-4, rtol=0)
