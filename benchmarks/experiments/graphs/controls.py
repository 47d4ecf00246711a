"""What is reached without training a network: vectors of graphs, and a linear model."""

import warnings

import torch
import torch.nn.functional as F
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch_geometric.nn.aggr import MeanAggregation

from benchmarks.experiments.graphs.data import GraphTask, predict
from benchmarks.readouts import WithSize
from gswe_pyg import GSWEAggregation
from gswe_pyg.models import GNNWithReadout
from gswe_pyg.sets import SetEmbedder

NAMES = ("untrained", "parameter_free")  # in the place of a readout
#: Inverse weights of the penalty, one of which is chosen on the validation part.
INVERSE_PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0)
POINTS, POINTS_OF_DIRECTIONS, BATCH = 8, 16, 128


def of_features(task: GraphTask, with_size: bool) -> Tensor:
    """Quantiles of the features of nodes, or the shares of categories."""
    graphs = task.graphs
    if graphs.x.is_floating_point():
        readout = GSWEAggregation(
            graphs.x.size(1), num_points=POINTS, slicer="identity", reference=None
        )
    else:
        readout = MeanAggregation()
    readout = WithSize(readout) if with_size else readout
    return readout(_features(task), graphs.index(), dim_size=len(graphs))


def of_directions(
    task: GraphTask, with_size: bool, directions: int, seed: int
) -> Tensor:
    """Quantiles of the features, or of their categories, in fixed directions."""
    sizes, x = task.graphs.ptr.diff(), _features(task)
    nodes = x.split(sizes.tolist())
    embedder = SetEmbedder(directions, POINTS_OF_DIRECTIONS, random_state=seed)
    embedder.fit([nodes[i] for i in task.train.tolist()])
    vectors = torch.from_numpy(embedder.transform((x, task.graphs.ptr)))
    size = sizes.clamp(min=1).log()[:, None].to(vectors.dtype)
    return torch.cat([vectors, size], dim=1) if with_size else vectors


def _features(task: GraphTask) -> Tensor:
    x = task.graphs.x
    if x.is_floating_point():
        return x
    return torch.cat([F.one_hot(column) for column in x.T], dim=1).float()


@torch.no_grad()
def of_untrained(model: GNNWithReadout, task: GraphTask) -> Tensor:
    """What the readout of a network gives that has seen the training part, so that its
    norms are set, and learned nothing."""
    model.head = torch.nn.Identity()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.momentum = None  # all batches count the same
    _vectors(model.train(), task, task.train)
    return _vectors(model.eval(), task, torch.arange(len(task.graphs)))


def _vectors(model: GNNWithReadout, task: GraphTask, part: Tensor) -> Tensor:
    batches, device = task.graphs.batches(part, BATCH), task.graphs.x.device
    return torch.cat([predict(model, batch, device) for batch in batches])


def fit(x: Tensor, task: GraphTask, is_regression: bool) -> dict[str, float]:
    """Of linear models with several penalties, the one that is best by validation."""
    y, found = task.graphs.y.flatten(), {}
    if is_regression:  # what the scores of the task expect
        known = y[task.train].double()
        y = (y - known.mean()) / known.std()
    for weight in INVERSE_PENALTIES:
        linear = LogisticRegression(C=weight, max_iter=1000)
        model = make_pipeline(
            StandardScaler(), Ridge(1 / weight) if is_regression else linear
        )
        with warnings.catch_warnings():  # weak ones need more steps
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x[task.train], y[task.train])
        out = model.predict(x) if is_regression else model.decision_function(x)
        out = torch.from_numpy(out).view(len(x), -1)
        if out.size(1) == 1 < task.num_outputs:  # one number for two classes
            out = torch.cat([-out, out], dim=1)
        scores = {
            name: round(task.score(out[part], task.graphs.y[part]), 6)
            for name, part in (("test", task.test), ("valid", task.valid))
        }
        found[scores["valid"]] = scores
    return found[min(found) if is_regression else max(found)]
