import math

import pytest
import torch

from gswe_pyg.models import SAB, SharedSAB, StackedSAB

SIZES = [3, 0, 1, 12, 12, 7, 40, 0]


def pointers(sizes=SIZES):
    return torch.tensor([0, *torch.tensor(sizes).cumsum(0).tolist()])


def sab_of_one_set(sab: SAB, x: torch.Tensor) -> torch.Tensor:
    """The block in its textbook form, head by head, on a single set."""
    q, k, v = (x @ sab.lin_qkv.weight.t() + sab.lin_qkv.bias).chunk(3, dim=1)
    width = sab.out_channels // sab.heads
    heads = []
    for i in range(0, sab.out_channels, width):
        scores = q[:, i : i + width] @ k[:, i : i + width].t() / math.sqrt(width)
        weights = scores.exp() / scores.exp().sum(dim=1, keepdim=True)
        heads.append(q[:, i : i + width] + weights @ v[:, i : i + width])
    hidden = torch.cat(heads, dim=1)
    out = hidden @ sab.lin_out.weight.t() + sab.lin_out.bias
    return hidden + torch.clamp(out, min=0)


def test_sab(ragged):
    sab = SAB(3, 8, heads=2)
    assert str(sab) == "SAB(3, 8, heads=2)"
    x, index = ragged(3, SIZES)
    assert sab(x, index).shape == (len(x), 8)
    torch.testing.assert_close(sab(x, ptr=pointers()), sab(x, index))
    torch.testing.assert_close(sab(x), sab_of_one_set(sab, x))


# The second batch is too large for a single block, so it has several.
@pytest.mark.parametrize("sizes", [SIZES, [*SIZES, 300, 17, 20, 300, 299, 8, 9, 0] * 2])
@pytest.mark.parametrize("heads", [1, 4])
def test_sab_equals_attention_within_each_set(ragged, sizes, heads):
    sab = SAB(3, 8, heads=heads).double()
    x, index = ragged(3, sizes, torch.double)
    out = sab(x, index)
    for i in range(len(sizes)):
        torch.testing.assert_close(out[index == i], sab_of_one_set(sab, x[index == i]))


@pytest.mark.parametrize(
    "backbone",
    [SAB(3, 8, heads=2), SharedSAB(3, 8, 5, heads=2), StackedSAB(3, (8, 4), (2, 1))],
)
def test_backbones_are_equivariant_and_ignore_batch_mates(ragged, backbone):
    backbone = backbone.double()
    x, index = ragged(3, SIZES, torch.double)
    out = backbone(x, index)
    perm = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(backbone(x[perm], index[perm]), out[perm])
    torch.testing.assert_close(backbone(x, ptr=pointers()), out)
    torch.testing.assert_close(backbone(x, index, dim_size=20), out)
    for i in range(len(SIZES)):
        torch.testing.assert_close(backbone(x[index == i]), out[index == i])

    broken = x.clone()
    broken[index == 5] = float("nan")
    others = index != 5
    torch.testing.assert_close(backbone(broken, index)[others], out[others])


@pytest.mark.parametrize("dim_size", [None, 4])
def test_backbones_on_no_elements_at_all(dim_size):
    x = torch.randn(0, 3, requires_grad=True)
    index = torch.empty(0, dtype=torch.long)
    for backbone in (SharedSAB(3, 8, 5), StackedSAB(3)):
        out = backbone(x, index, dim_size=dim_size)
        assert out.shape == (0, backbone.out_channels)
        out.sum().backward()


def test_sab_gradient(ragged):
    sab = SAB(2, 4, heads=2).double()
    x, index = ragged(2, [3, 0, 1, 2], torch.double)
    assert torch.autograd.gradcheck(
        lambda *inputs: sab(inputs[0], index), (x.requires_grad_(), *sab.parameters())
    )


def test_shared_sab_applies_one_block_several_times(ragged):
    backbone = SharedSAB(2, 8, 3, heads=2, num_layers=3).double()
    assert str(backbone) == "SharedSAB(2, 8, 3, heads=2, num_layers=3)"
    x, index = ragged(2, SIZES, torch.double)
    hidden = backbone.lin_in(x)
    for _ in range(3):
        hidden = backbone.sab(hidden, index)
    torch.testing.assert_close(backbone(x, index), backbone.lin_out(hidden))


def test_shared_sab_does_not_grow_with_its_depth():
    def count(num_layers):
        backbone = SharedSAB(2, 256, 16, heads=4, num_layers=num_layers)
        return sum(p.numel() for p in backbone.parameters())

    assert count(1) == count(3) == 3 * 256 + 4 * (256 * 256 + 256) + 257 * 16


def test_stacked_sab_is_the_papers_by_default(ragged):
    backbone = StackedSAB(300)
    assert str(backbone) == "StackedSAB(300, [128, 128, 16], heads=[4, 4, 1])"
    x, index = ragged(300, SIZES)
    hidden = x
    for sab in backbone.sabs:
        hidden = sab(hidden, index)
    torch.testing.assert_close(backbone(x, index), hidden)


@pytest.mark.parametrize("backbone", [SharedSAB(3, 8, 5, heads=2), StackedSAB(3)])
def test_reset_parameters_draws_again(backbone):
    before = [p.clone() for p in backbone.parameters()]
    backbone.reset_parameters()
    assert all(
        not torch.equal(a, b)
        for a, b in zip(before, backbone.parameters(), strict=True)
    )


def test_sab_rejects_what_does_not_fit():
    with pytest.raises(ValueError, match="'heads' must divide 'out_channels'"):
        SAB(3, 8, heads=3)
    with pytest.raises(ValueError, match="'heads' must be a positive integer"):
        SAB(3, 8, heads=0)
    with pytest.raises(ValueError, match="'num_layers' must be a positive integer"):
        SharedSAB(3, 8, 5, num_layers=0)
    with pytest.raises(ValueError, match="one entry per entry of 'channels'"):
        StackedSAB(3, (8, 8), (1,))
    sab, x = SAB(3, 8), torch.randn(4, 3)
    with pytest.raises(ValueError, match="'index' must name the set of every element"):
        sab(x, torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match="'dim_size' must be at least 3"):
        sab(x, torch.tensor([0, 0, 2, 2]), dim_size=2)
    for ptr in ([0, 3], [1, 4], [0, 3, 2, 4]):
        with pytest.raises(ValueError, match="'ptr' must rise from 0 to the number"):
            sab(x, ptr=torch.tensor(ptr))
