"""What frozen vectors of sets are worth, and vectors that no network made."""

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch_geometric.utils import scatter

from benchmarks.engine.arguments import Registry
from benchmarks.experiments.set_table import SetTable
from gswe_pyg.sets import SetEmbedder


def nearest_neighbor_accuracy(
    queries: Tensor, labels: Tensor, points: Tensor, point_labels: Tensor
) -> float:
    """The share of queries whose nearest point has their label.

    Embeddings that are not finite, as of a diverged model, have no neighbour: a
    query among them counts as wrong, and a point among them is never the nearest.
    """
    usable, finite = (t.isfinite().all(dim=1) for t in (points, queries))
    if not usable.any():
        return 0.0
    # In double precision: neighbours may be close to each other, far from the origin.
    nearest = pairwise_distances_argmin(
        torch.where(finite[:, None], queries, 0).cpu().numpy(),
        points[usable].cpu().numpy(),
    )
    found = point_labels[usable][torch.from_numpy(nearest)]
    return ((found == labels) & finite).double().mean().item()


def probes(
    queries: Tensor, labels: Tensor, points: Tensor, point_labels: Tensor
) -> dict:
    """The accuracies of two classifiers that learn from the vectors of the points."""
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


def _sliced(train: SetTable, directions: int, points: int, sets: SetTable) -> Tensor:
    embedder = SetEmbedder(directions, points, standardize=False, random_state=0)
    embedder.fit((train.x, train.ptr))
    return torch.from_numpy(embedder.transform((sets.x, sets.ptr)))


#: Vectors of sets without a network, called as ``embed(train, directions, points,
#: sets)``; in the place of a readout: see `benchmarks.readouts.CONTROLS`.
WITHOUT_NETWORK: Registry = Registry(
    "vectors without a network",
    sliced=_sliced,  # quantiles in fixed directions: GSWE of the elements themselves
    mean_of_elements=lambda train, directions, points, sets: scatter(
        sets.x, sets.index(), 0, len(sets), reduce="mean"
    ),
    size=lambda train, directions, points, sets: sets.ptr.diff()[:, None].float(),
)
