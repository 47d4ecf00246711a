import pytest
import torch

from benchmarks.experiments.self_supervised import nearest_neighbor
from benchmarks.experiments.self_supervised.nearest_neighbor import (
    nearest_neighbor_accuracy,
    nearest_neighbors,
)


@pytest.mark.parametrize("distances", [1, 100, 1 << 24])
def test_nearest_neighbors_in_chunks_of_any_size(monkeypatch, distances):
    monkeypatch.setattr(nearest_neighbor, "_DISTANCES", distances)
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(17, 3, generator=generator)
    points = torch.randn(29, 3, generator=generator)
    expected = [
        min(range(29), key=lambda j: float((query - points[j]).double().norm()))
        for query in queries
    ]
    assert nearest_neighbors(queries, points).tolist() == expected


def test_nearest_neighbors_is_exact_far_from_the_origin():
    points = 4096 + torch.tensor([[0.0, 0.0], [1 / 1024, 0.0], [1 / 512, 0.0]])
    assert nearest_neighbors(points, points.repeat(20, 1)).tolist() == [0, 1, 2]


def test_nearest_neighbors_takes_the_first_of_a_tie():
    points = torch.tensor([[1.0], [-1.0], [1.0]])
    assert nearest_neighbors(torch.zeros(1, 1), points).tolist() == [0]


def test_accuracy():
    points, labels = torch.tensor([[0.0], [10.0]]), torch.tensor([3, 7])
    queries = torch.tensor([[1.0], [2.0], [9.0], [4.0]])
    wanted = torch.tensor([3, 7, 7, 3])
    assert nearest_neighbor_accuracy(queries, wanted, points, labels) == 0.75


def test_accuracy_of_a_diverged_model():
    points, labels = torch.tensor([[0.0], [float("nan")]]), torch.tensor([3, 7])
    queries = torch.tensor([[1.0], [float("inf")], [float("nan")]])
    wanted = torch.tensor([3, 3, 3])
    accuracy = nearest_neighbor_accuracy(queries, wanted, points, labels)
    assert accuracy == pytest.approx(1 / 3)
    none = torch.full_like(points, float("nan"))
    assert nearest_neighbor_accuracy(queries, wanted, none, labels) == 0
