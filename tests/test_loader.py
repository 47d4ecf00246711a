import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from gswe_pyg.datasets import SetCircles
from gswe_pyg.loader import BucketBatchSampler, SetLoader
from gswe_pyg.transforms import RandomRotation, TwoViews


def padding(sizes, batches):
    return sum(int(sizes[batch].max()) * len(batch) for batch in batches) - sizes.sum()


@pytest.mark.parametrize("num_sets", [1, 31, 32, 33, 400])
@pytest.mark.parametrize("pool_size", [1, 3, 32])
def test_every_graph_is_in_one_batch(num_sets, pool_size):
    sampler = BucketBatchSampler(SetCircles(num_sets=num_sets), 8, pool_size)
    for _ in range(3):
        batches = list(sampler)
        assert len(batches) == len(sampler)
        assert sorted(i for batch in batches for i in batch) == list(range(num_sets))
        # At most one batch is not full, as the last one of an ordinary epoch.
        assert sorted(map(len, batches))[1:] == [8] * (len(sampler) - 1)


def test_sizes_in_a_batch_are_similar():
    dataset = SetCircles()
    ordinary = torch.randperm(400).split(32)
    saved = [
        1 - padding(dataset.set_sizes, sampler) / padding(dataset.set_sizes, ordinary)
        for sampler in (BucketBatchSampler(dataset, 32, pool) for pool in (2, 13))
    ]
    assert 0.3 < saved[0] < saved[1]
    assert saved[1] > 0.8


def test_epochs_differ_and_can_be_repeated():
    dataset = SetCircles()
    sampler = BucketBatchSampler(dataset, 32, seed=1)
    epochs = [list(sampler) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    # Other graphs meet, not only in another order.
    assert set(map(frozenset, epochs[0])) != set(map(frozenset, epochs[1]))
    sampler.set_epoch(1)
    assert list(sampler) == epochs[1]
    assert list(sampler) == epochs[2]

    torch.manual_seed(0)
    state = torch.get_rng_state()
    again = BucketBatchSampler(dataset, 32, seed=1)
    assert [list(again) for _ in range(3)] == epochs
    assert torch.equal(torch.get_rng_state(), state)
    other = BucketBatchSampler(dataset, 32, seed=2)
    assert all(list(other) != epoch for epoch in epochs)


def test_batches_do_not_come_in_order_of_size():
    sizes = [max(dataset_sizes) for dataset_sizes in sized_batches()]
    assert sizes != sorted(sizes)


def sized_batches():
    dataset = SetCircles()
    return [
        dataset.set_sizes[batch].tolist() for batch in BucketBatchSampler(dataset, 8)
    ]


@pytest.mark.parametrize("loader", [DataLoader, SetLoader])
def test_sampler_in_a_loader(loader):
    dataset = SetCircles(num_sets=50)
    sampler = BucketBatchSampler(dataset, 8)
    batches = list(loader(dataset, batch_sampler=sampler))
    sampler.set_epoch(0)
    for batch, indices in zip(batches, sampler, strict=True):
        assert batch.y.tolist() == [int(dataset[i].y) for i in indices]
        assert batch.ptr.diff().tolist() == dataset.set_sizes[indices].tolist()


def test_sampler_of_other_graphs():
    graphs = [Data(x=torch.zeros(n, 1)) for n in (5, 1, 5, 1)]
    sampler = BucketBatchSampler(graphs, 2)
    assert sorted(sorted(batch) for batch in sampler) == [[0, 2], [1, 3]]
    views = SetCircles(num_sets=4, transform=TwoViews(RandomRotation()))
    assert BucketBatchSampler(list(views), 2).sizes.tolist() == views.set_sizes.tolist()


@pytest.mark.parametrize("argument", ["batch_size", "pool_size"])
def test_sampler_names_the_wrong_argument(argument):
    arguments = {"batch_size": 2, "pool_size": 2} | {argument: 0}
    with pytest.raises(ValueError, match=f"'{argument}' must be a positive integer"):
        BucketBatchSampler(SetCircles(num_sets=4), **arguments)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_set_loader_yields_what_pyg_yields(num_workers):
    dataset = SetCircles(num_sets=10)[:7]
    loaders = (
        loader(dataset, batch_size=3, num_workers=num_workers)
        for loader in (SetLoader, DataLoader)
    )
    for batch, expected in zip(*loaders, strict=True):
        assert batch.num_graphs == expected.num_graphs
        for key in ("pos", "y", "batch", "ptr"):
            assert torch.equal(batch[key], expected[key])


def test_set_loader_shuffles():
    dataset = SetCircles()
    order = torch.cat(
        [batch.ptr.diff() for batch in SetLoader(dataset, 32, shuffle=True)]
    )
    assert not torch.equal(order, dataset.set_sizes)
    assert torch.equal(order.sort()[0], dataset.set_sizes.sort()[0])


def test_set_loader_gives_two_views():
    dataset = SetCircles(num_sets=6, transform=TwoViews(RandomRotation()))
    first, second = next(iter(SetLoader(dataset, batch_size=6)))
    assert torch.equal(first.ptr, second.ptr)


def test_set_loader_needs_a_set_data_set():
    with pytest.raises(ValueError, match=r"'dataset' must be .*\(got list\)"):
        SetLoader([Data(x=torch.zeros(2, 1))])


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore:.*dropped")
def test_real_padding_on_amazon(real_data):
    from gswe_pyg.datasets import WordSets

    dataset = WordSets(real_data("text"), "amazon")
    torch.manual_seed(0)
    ordinary = padding(dataset.set_sizes, torch.randperm(len(dataset)).split(64))
    bucketed = padding(dataset.set_sizes, BucketBatchSampler(dataset, 64))
    assert bucketed < 0.1 * ordinary
