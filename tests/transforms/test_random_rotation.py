import math

import pytest
import torch
from torch_geometric.data import Batch, Data

from gswe_pyg.transforms import RandomRotation
from gswe_pyg.transforms.random_rotation import random_rotations


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_random_rotation(dim):
    transform = RandomRotation()
    assert str(transform) == "RandomRotation()"
    data = Data(pos=torch.randn(7, dim, dtype=torch.double), y=torch.tensor([1]))
    out = transform(data)
    assert len(out) == 2
    assert out.pos is not data.pos
    assert not torch.allclose(out.pos, data.pos)
    torch.testing.assert_close(out.pos @ out.pos.T, data.pos @ data.pos.T)


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_rotations_are_uniform_and_proper(dim):
    rotation = random_rotations(4000, torch.empty(0, dim, dtype=torch.double))
    identity = torch.eye(dim, dtype=torch.double).expand_as(rotation)
    torch.testing.assert_close(rotation @ rotation.mT, identity)
    torch.testing.assert_close(torch.linalg.det(rotation), torch.ones(4000).double())
    # Uniform rotations take a point everywhere: mean 0 and covariance 1 / dim.
    point = rotation[:, :, 0]
    assert point.mean(dim=0).abs().max() < 0.06
    torch.testing.assert_close(
        point.T @ point / 4000, identity[0] / dim, atol=0.05, rtol=0.0
    )


def test_rotations_in_the_plane_cover_the_circle():
    rotation = random_rotations(4000, torch.empty(0, 2))
    angle = torch.atan2(rotation[:, 1, 0], rotation[:, 0, 0])
    counts = torch.histc(angle, bins=8, min=-math.pi, max=math.pi)
    assert (counts - 500).abs().max() < 100


def test_every_graph_of_a_batch_has_its_own_rotation():
    graphs = [Data(pos=torch.tensor([[1.0, 0.0], [0.0, 2.0]])) for _ in range(3)]
    graphs.insert(1, Data(pos=torch.empty(0, 2)))
    batch = Batch.from_data_list(graphs)
    out = RandomRotation()(batch)
    views = out.to_data_list()
    assert views[1].num_nodes == 0
    for view in (views[0], views[2], views[3]):
        gram = view.pos @ view.pos.T
        torch.testing.assert_close(gram, torch.tensor([[1.0, 0.0], [0.0, 4.0]]))
    assert not torch.allclose(views[0].pos, views[2].pos)
    assert torch.equal(batch.pos[0], torch.tensor([1.0, 0.0]))


def test_random_rotation_follows_torch_seed():
    data = Data(pos=torch.randn(4, 2))
    outs = []
    for _ in range(2):
        torch.manual_seed(5)
        outs.append(RandomRotation()(data).pos)
    assert torch.equal(*outs)


@pytest.mark.parametrize(
    "data", [Data(x=torch.zeros(2, 2)), Data(pos=torch.zeros(2, 1))]
)
def test_random_rotation_needs_positions(data):
    with pytest.raises(ValueError, match=r"'data\.pos' must have the shape"):
        RandomRotation()(data)
