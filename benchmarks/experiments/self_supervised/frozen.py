"""What frozen vectors of sets are worth, and vectors that no network made."""

import time

import numpy as np
import torch
from torch import Tensor

from benchmarks.engine.arguments import Registry
from benchmarks.experiments.set_table import SetTable


def nearest_neighbors(queries: Tensor, points: Tensor) -> Tensor:
    """The row of ``points`` nearest to each row of ``queries``; in double precision, as
    neighbours may lie close to each other and far from the origin."""
    from sklearn.metrics import pairwise_distances_argmin

    found = pairwise_distances_argmin(queries.cpu().numpy(), points.cpu().numpy())
    return torch.from_numpy(found)


def nearest_neighbor_accuracy(
    queries: Tensor, labels: Tensor, points: Tensor, point_labels: Tensor
) -> float:
    """The share of queries whose nearest point has their label.

    Embeddings that are not finite, as of a diverged model, have no neighbour: a
    query among them counts as wrong, and a point among them is never the nearest.
    """
    usable = points.isfinite().all(dim=1)
    if not usable.any():
        return 0.0
    points, point_labels = points[usable], point_labels[usable]
    finite = queries.isfinite().all(dim=1)
    found = point_labels[
        nearest_neighbors(torch.where(finite[:, None], queries, 0), points)
    ]
    return ((found == labels) & finite).double().mean().item()


def probes(
    queries: Tensor, labels: Tensor, points: Tensor, point_labels: Tensor
) -> dict:
    """The accuracies of two classifiers that learn from the vectors of the points."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    classifiers = {
        "logistic": LogisticRegression(max_iter=100),
        # As many epochs as sklearn's stop on held-out tenths of the points allows.
        "perceptron": MLPClassifier(
            (256,), batch_size=256, max_iter=30, early_stopping=True, random_state=0
        ),
    }
    found = {}
    for name, classifier in classifiers.items():
        model = make_pipeline(StandardScaler(), classifier)
        model.fit(points.numpy(), point_labels.numpy())
        found[name] = round(model.score(queries.numpy(), labels.numpy()), 6)
    return found


def _sliced(
    train: SetTable, sets: SetTable, directions: int, points: int
) -> np.ndarray:
    from gswe_pyg.sets import SetEmbedder

    embedder = SetEmbedder(directions, points, standardize=False, random_state=0)
    return embedder.fit((train.x, train.ptr)).transform((sets.x, sets.ptr))


def _mean(train: SetTable, sets: SetTable, *_: int) -> np.ndarray:
    total = torch.zeros(len(sets), sets.x.size(1)).index_add_(0, sets.index(), sets.x)
    return (total / sets.ptr.diff()[:, None]).numpy()


def _size(train: SetTable, sets: SetTable, *_: int) -> np.ndarray:
    return sets.ptr.diff()[:, None].float().numpy()


#: Vectors of sets without a network, called as ``embed(train, sets, directions,
#: points)``; each takes the place of a readout in a config.
WITHOUT_NETWORK: Registry = Registry(
    "vectors without a network",
    sliced=_sliced,  # quantiles in fixed directions: GSWE of the elements themselves
    mean_of_elements=_mean,
    size=_size,
)
LABELS = {
    "sliced": "no network: sliced",
    "mean_of_elements": "no network: mean of the points",
    "size": "no network: number of points",
}


def without_network(
    name: str, train: SetTable, test: SetTable, directions: int, points: int
) -> tuple[Tensor, Tensor, float]:
    """Vectors of the training and the test sets, and the processor seconds for both."""
    begin = time.process_time()
    vectors = [
        WITHOUT_NETWORK[name](train, s, directions, points) for s in (train, test)
    ]
    seconds = time.process_time() - begin
    return *map(torch.from_numpy, vectors), seconds
