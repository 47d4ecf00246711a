import math

import torch

from benchmarks.experiments.self_supervised.augmentations import (
    bend_and_jitter,
    jitter_elements,
    rotate_sets,
)


def test_rotate_sets_turns_each_set_as_a_whole():
    generator = torch.Generator().manual_seed(0)
    index = torch.arange(500).repeat_interleave(3)
    x = torch.randn(1500, 2, generator=generator)
    turned = rotate_sets(x, index, 500, generator, noise=1.0)
    angle = torch.atan2(turned[:, 1], turned[:, 0]) - torch.atan2(x[:, 1], x[:, 0])
    angle = (angle % (2 * math.pi)).view(500, 3)
    torch.testing.assert_close(turned.norm(dim=1), x.norm(dim=1))
    # All elements of a set by one angle (modulo a full turn), sets by different ones.
    spread = (angle - angle[:, :1] + math.pi) % (2 * math.pi) - math.pi
    assert spread.abs().max() < 1e-4
    assert len(angle[:, 0].unique()) == 500
    # Uniform on [0, 2 pi): each quarter has a quarter of the sets, 4 sigma wide.
    quarters = torch.bincount((angle[:, 0] / (math.pi / 2)).long(), minlength=4)
    assert (quarters - 125).abs().max() < 4 * math.sqrt(500 * 3 / 16)


def test_jitter_elements_adds_noise_to_every_coordinate():
    generator = torch.Generator().manual_seed(0)
    x = torch.full((20000, 2), 5.0)
    noise = jitter_elements(x, torch.zeros(20000).long(), 1, generator, 2.0) - x
    assert noise.mean(dim=0).abs().max() < 0.06
    assert (noise.std(dim=0) - 2).abs().max() < 0.04
    assert noise.t().corrcoef()[0, 1].abs() < 0.03


def test_bending_is_affine_set_by_set():
    """Of four corners of a parallelogram, the differences stay equal."""
    generator = torch.Generator().manual_seed(0)
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    index = torch.arange(50).repeat_interleave(4)
    bent = bend_and_jitter(corners.repeat(50, 1), index, 50, generator, noise=0.0)
    bent = bent.view(50, 4, 2)
    torch.testing.assert_close(bent[:, 1] - bent[:, 0], bent[:, 3] - bent[:, 2])
    assert len(bent[:, 0].unique(dim=0)) == 50
