import pytest
import torch

from benchmarks.experiments.self_supervised.frozen import (
    nearest_neighbor_accuracy,
    nearest_neighbors,
    probes,
    without_network,
)
from benchmarks.experiments.set_table import SetTable


def test_nearest_neighbors():
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
    assert nearest_neighbors(points, points).tolist() == [0, 1, 2]


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


def test_vectors_without_a_network():
    x = torch.tensor([[0.0, 0.0], [2.0, 4.0], [1.0, 1.0]])
    sets = SetTable(x, torch.tensor([0, 2, 3]), torch.tensor([0, 1]))
    mean, other, _ = without_network("mean_of_elements", sets, sets, 1, 1)
    assert mean.tolist() == other.tolist() == [[1, 2], [1, 1]]
    assert without_network("size", sets, sets, 1, 1)[0].tolist() == [[2], [1]]
    sliced, _, seconds = without_network("sliced", sets, sets, 4, 8)
    assert sliced.shape == (2, 32)
    assert seconds > 0


def test_classifiers_learn_from_vectors():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 2
    x = torch.randn(200, 3, generator=generator) + 8 * y[:, None]
    found = probes(x, y, x, y)
    assert found == {"logistic": 1.0, "perceptron": 1.0}
    assert probes(x, 1 - y, x, y) == {"logistic": 0.0, "perceptron": 0.0}
