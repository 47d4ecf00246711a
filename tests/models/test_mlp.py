import torch

from gswe_pyg.models import MLP


def test_mlp():
    mlp = MLP(2, [64, 32], 1)
    assert str(mlp) == "MLP(2, [64, 32], 1)"
    x = torch.randn(10, 2)
    out = mlp(x, torch.zeros(10, dtype=torch.long))
    assert out.shape == (10, 1)

    first, second, third = mlp.lins
    hidden = torch.clamp(x @ first.weight.t() + first.bias, min=0)
    hidden = torch.clamp(hidden @ second.weight.t() + second.bias, min=0)
    torch.testing.assert_close(out, hidden @ third.weight.t() + third.bias)


def test_mlp_has_the_papers_number_of_parameters():
    count = sum(p.numel() for p in MLP(2, [64, 64], 1).parameters())
    assert count == (2 * 64 + 64) + (64 * 64 + 64) + (64 + 1)


def test_mlp_reset_parameters_draws_again():
    mlp = MLP(2, [4], 1)
    before = [p.clone() for p in mlp.parameters()]
    mlp.reset_parameters()
    assert all(
        not torch.equal(a, b) for a, b in zip(before, mlp.parameters(), strict=True)
    )
