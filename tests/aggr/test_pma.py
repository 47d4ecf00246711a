import math

import pytest
import torch

from gswe_pyg.aggr import PMA
from gswe_pyg.testing import assert_readout

SIZES = [0, 3, 1, 12, 0, 12, 7, 40, 0]


def pma_of_one_set(pma: PMA, x: torch.Tensor) -> torch.Tensor:
    """Seed by seed and head by head, on a single set with elements."""
    query = pma.seed @ pma.lin_q.weight.t() + pma.lin_q.bias
    key, value = (x @ pma.lin_kv.weight.t() + pma.lin_kv.bias).chunk(2, dim=1)
    width = pma.in_channels // pma.heads
    rows = []
    for seed in query:
        heads = []
        for i in range(0, pma.in_channels, width):
            here = slice(i, i + width)
            weights = (key[:, here] @ seed[here] / math.sqrt(width)).exp()
            heads.append(seed[here] + weights @ value[:, here] / weights.sum())
        hidden = torch.cat(heads)
        out = pma.lin_out.weight @ hidden + pma.lin_out.bias
        rows.append(hidden + torch.clamp(out, min=0))
    return torch.cat(rows)


def test_pma():
    pma = PMA(8, num_seeds=3, heads=2)
    assert str(pma) == "PMA(8, num_seeds=3, heads=2)"
    assert pma.out_channels == 24
    index = torch.tensor([0, 0, 2])
    assert pma(torch.randn(3, 8), index).shape == (3, 24)


# The second batch is too large for a single block, so it has several.
@pytest.mark.parametrize("sizes", [SIZES, [*SIZES, 300, 17, 20, 300, 8, 9, 0] * 2])
@pytest.mark.parametrize("heads", [1, 4])
def test_pma_equals_attention_of_each_seed(ragged, sizes, heads):
    pma = PMA(8, num_seeds=3, heads=heads).double()
    x, index = ragged(8, sizes, torch.double)
    out = pma(x, index, dim_size=len(sizes))
    assert out.shape == (len(sizes), 24)
    for i, size in enumerate(sizes):
        if size == 0:
            assert torch.equal(out[i], torch.zeros_like(out[i]))
        else:
            torch.testing.assert_close(out[i], pma_of_one_set(pma, x[index == i]))


@pytest.mark.parametrize("heads", [1, 2])
def test_pma_is_a_readout(heads):
    assert_readout(lambda: PMA(4, num_seeds=3, heads=heads), in_channels=4)


def test_pma_is_invariant_and_ignores_batch_mates(ragged):
    pma = PMA(4, num_seeds=2, heads=2).double()
    x, index = ragged(4, SIZES, torch.double)
    out = pma(x, index, dim_size=len(SIZES))
    perm = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(pma(x[perm], index[perm], dim_size=len(SIZES)), out)
    ptr = torch.tensor([0, *torch.tensor(SIZES).cumsum(0).tolist()])
    torch.testing.assert_close(pma(x, ptr=ptr), out)
    broken = x.clone()
    broken[index == 5] = float("nan")
    broken_out = pma(broken, index, dim_size=len(SIZES))
    assert broken_out[5].isnan().any()
    others = torch.arange(len(SIZES)) != 5
    torch.testing.assert_close(broken_out[others], out[others])


@pytest.mark.parametrize("sizes", [[3, 0, 2], [0, 0]])
def test_pma_gradient_is_finite_beside_empty_sets(ragged, sizes):
    pma = PMA(4, num_seeds=2, heads=2).double()
    x, index = ragged(4, sizes, torch.double)
    x.requires_grad_()
    pma(x, index, dim_size=len(sizes)).square().sum().backward()
    for tensor in (x, *pma.parameters()):
        assert tensor.grad.isfinite().all()


def test_pma_gradient(ragged):
    pma = PMA(2, num_seeds=2).double()
    x, index = ragged(2, [2, 0, 1, 3], torch.double)
    assert torch.autograd.gradcheck(
        lambda *inputs: pma(inputs[0], index), (x.requires_grad_(), *pma.parameters())
    )


def test_pma_rejects_what_does_not_fit():
    with pytest.raises(ValueError, match="'heads' must divide 'in_channels'"):
        PMA(4, heads=3)
    with pytest.raises(ValueError, match="'num_seeds' must be a positive integer"):
        PMA(4, num_seeds=0)


def test_pma_reset_parameters_draws_again():
    pma = PMA(4, num_seeds=2)
    before = [p.clone() for p in pma.parameters()]
    pma.reset_parameters()
    assert all(
        not torch.equal(a, b) for a, b in zip(before, pma.parameters(), strict=True)
    )
