import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Compose

from gswe_pyg.datasets import SetCircles
from gswe_pyg.transforms import DropElements, GaussianJitter, RandomRotation, TwoViews


def test_two_views():
    transform = TwoViews(GaussianJitter())
    assert str(transform) == "TwoViews(GaussianJitter(std=1.0))"
    data = Data(pos=torch.zeros(4, 2), y=torch.tensor([1]))
    first, second = transform(data)
    assert torch.equal(data.pos, torch.zeros(4, 2))
    assert not torch.equal(first.pos, data.pos)
    assert not torch.equal(first.pos, second.pos)
    assert first.y.tolist() == second.y.tolist() == [1]


def test_two_views_of_different_kinds():
    def mark(data):
        data.mark = torch.ones(1)
        return data

    transform = TwoViews(mark, GaussianJitter(std=0.0))
    assert str(transform).endswith(", GaussianJitter(std=0.0))")
    data = Data(pos=torch.randn(4, 2))
    first, second = transform(data)
    assert "mark" in first
    assert "mark" not in second
    assert "mark" not in data
    assert torch.equal(second.pos, data.pos)


def test_two_views_in_a_loader():
    transform = TwoViews(Compose([RandomRotation(), DropElements(0.5)]))
    dataset = SetCircles(num_sets=10, transform=transform)
    loader = DataLoader(dataset, batch_size=4)
    assert len(loader) == 3
    seen = 0
    for first, second in loader:
        assert isinstance(first, Batch)
        assert isinstance(second, Batch)
        assert first.num_graphs == second.num_graphs
        # Graph i of the one and of the other are views of the same set.
        expected = [dataset.get(seen + i) for i in range(first.num_graphs)]
        assert torch.equal(first.y, torch.cat([data.y for data in expected]))
        assert torch.equal(second.y, first.y)
        for one, other, data in zip(
            first.to_data_list(), second.to_data_list(), expected, strict=True
        ):
            for view in (one, other):
                norms = torch.cdist(
                    view.pos.norm(dim=1)[:, None], data.pos.norm(dim=1)[:, None]
                )
                assert norms.min(dim=1).values.max() < 1e-5
        seen += first.num_graphs
    assert seen == 10


def test_two_views_of_a_batch():
    batch = SetCircles(num_sets=5).get_batch(range(5))
    first, second = TwoViews(RandomRotation())(batch)
    assert first.num_graphs == second.num_graphs == 5
    assert torch.equal(first.batch, second.batch)
    assert not torch.allclose(first.pos, second.pos)
    torch.testing.assert_close(first.pos.norm(dim=1), second.pos.norm(dim=1))
