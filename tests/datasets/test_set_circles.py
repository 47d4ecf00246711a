import math

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from gswe_pyg.datasets import SetCircles


def test_set_circles():
    dataset = SetCircles()
    assert str(dataset) == "SetCircles(400)"
    assert dataset.num_classes == 2
    assert dataset.num_features == 2
    assert dataset.y.bincount().tolist() == [200, 200]
    assert (dataset.set_sizes.min(), dataset.set_sizes.max()) == (5, 24)

    data = dataset[0]
    assert len(data) == 2
    assert data.pos.size() == (dataset.set_sizes[0], 2)
    assert data.pos.dtype == torch.float
    assert data.y.size() == (1,)
    assert data.edge_index is None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("train", [True, False])
def test_set_circles_has_the_mean_size_of_the_paper(seed, train):
    sizes = SetCircles(train=train, seed=seed).set_sizes
    assert abs(sizes.double().mean() - 14.6) < 0.3


def test_set_circles_radius_is_the_class():
    dataset = SetCircles(noise=0.0, radii=(1.0, 2.0, 5.0))
    assert dataset.num_classes == 3
    radii = torch.tensor([1.0, 2.0, 5.0])
    for data in dataset:
        torch.testing.assert_close(
            data.pos.norm(dim=1), radii[data.y].expand(data.num_nodes)
        )


def test_set_circles_arc_and_noise():
    dataset = SetCircles(noise=0.0, arc=(0.1, 0.2), radii=(1.0,))
    for data in dataset:
        chord = torch.cdist(data.pos, data.pos).max()
        assert chord <= 2 * math.sin(0.1) + 1e-6

    noisy = SetCircles(noise=0.5, arc=(0.0, 0.0), radii=(0.0,), num_sets=2000)
    assert abs(noisy.pos.std() - 0.5) < 0.01


def test_set_circles_is_reproducible_and_leaves_global_state_alone():
    torch.manual_seed(1)
    first = SetCircles(seed=3)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second = SetCircles(seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.pos, second.pos)
    assert torch.equal(first.y, second.y)
    assert torch.equal(first.set_sizes, second.set_sizes)
    # The very bits, so that a change of the generator cannot pass unseen.
    expected = torch.tensor(
        [
            [0.7368565201759338, -0.2618854343891144],
            [0.34634679555892944, 1.0679078102111816],
            [-1.8446911573410034, -0.8928418159484863],
            [1.873200535774231, 0.7200220227241516],
        ]
    )
    assert torch.equal(SetCircles(num_sets=2, min_size=2, max_size=2).pos, expected)


def test_set_circles_parts_and_seeds_differ():
    train, test = SetCircles(), SetCircles(train=False)
    other = SetCircles(seed=1)
    assert not torch.equal(train.set_sizes, test.set_sizes)
    assert not torch.equal(train.set_sizes, other.set_sizes)
    assert not torch.equal(test.set_sizes, other.set_sizes)


def test_set_circles_with_empty_sets():
    dataset = SetCircles(num_sets=8, min_size=0, max_size=1)
    assert dataset.set_sizes.bincount().tolist() == [4, 4]
    batch = next(iter(DataLoader(dataset, batch_size=8)))
    assert batch.num_graphs == 8
    assert batch.ptr.diff().tolist() == dataset.set_sizes.tolist()


def test_set_circles_slices_and_transforms():
    dataset = SetCircles(
        pre_filter=lambda data: data.num_nodes > 10,
        pre_transform=lambda data: Data(pos=data.pos, x=2 * data.pos, y=data.y),
        transform=lambda data: Data(pos=-data.pos, x=data.x, y=data.y),
    )
    assert dataset.set_sizes.min() == 11
    assert len(dataset) < 400
    assert torch.equal(dataset[3].x, -2 * dataset[3].pos)

    subset = dataset[[5, 2]]
    assert len(subset) == 2
    assert torch.equal(subset[0].pos, dataset[5].pos)
    assert subset.set_sizes.tolist() == [dataset[5].num_nodes, dataset[2].num_nodes]

    with pytest.raises(ValueError, match="'pre_filter' rejected all"):
        SetCircles(pre_filter=lambda data: False)


def test_set_circles_of_one_set():
    dataset = SetCircles(num_sets=1)
    assert len(dataset) == 1
    assert dataset[0].num_nodes == dataset.set_sizes[0]
    assert SetCircles(num_sets=1, pre_filter=lambda data: True)[0].y.size() == (1,)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("num_sets", 0),
        ("radii", ()),
        ("radii", (-1.0,)),
        ("min_size", -1),
        ("min_size", 25),
        ("arc", (2.0, 1.0)),
        ("noise", -0.1),
        ("seed", -1),
    ],
)
def test_set_circles_names_the_wrong_argument(argument, value):
    with pytest.raises(ValueError, match=f"'{argument}'"):
        SetCircles(**{argument: value})
