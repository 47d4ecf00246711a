import pytest
import torch
from torch_geometric.data import Batch, Data

from gswe_pyg.transforms import GaussianJitter


def test_gaussian_jitter():
    transform = GaussianJitter(std=2.0)
    assert str(transform) == "GaussianJitter(std=2.0)"
    data = Data(pos=torch.full((5000, 2), 3.0), y=torch.tensor([1]))
    out = transform(data)
    assert len(out) == 2
    assert torch.equal(data.pos, torch.full((5000, 2), 3.0))
    noise = out.pos - data.pos
    assert abs(noise.mean()) < 0.1
    assert abs(noise.std() - 2) < 0.1
    # A uniform noise of that variance would end at 3.5.
    assert noise.abs().max() > 6


def test_gaussian_jitter_of_a_batch():
    batch = Batch.from_data_list([Data(pos=torch.zeros(2, 3)) for _ in range(2)])
    out = GaussianJitter()(batch)
    assert not torch.equal(out[0].pos, out[1].pos)


def test_gaussian_jitter_names_what_is_wrong():
    with pytest.raises(ValueError, match=r"'std' must not be negative \(got -1"):
        GaussianJitter(std=-1.0)
    with pytest.raises(ValueError, match=r"'data\.pos' must have the shape"):
        GaussianJitter()(Data(x=torch.zeros(2, 2)))
