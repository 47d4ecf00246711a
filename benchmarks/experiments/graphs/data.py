"""The data sets of the graph benchmark: graphs, parts, and how a prediction is scored.

``load(root, run)`` gives a task. Of the training part of a data set, some graphs are
held out for validation: everything is chosen by them, nothing by the test part.
"""

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from filelock import FileLock
from torch import Tensor
from torch_geometric.utils import cumsum, degree

from benchmarks.engine.arguments import Registry
from benchmarks.experiments.set_table import SetTable
from gswe_pyg.datasets import ModelNet10Points, load_ogb, load_tu, stratified_folds

FOLDS = 10

TU = (
    *("MUTAG", "PTC_MR", "ENZYMES", "PROTEINS", "NCI1"),
    *("IMDB-BINARY", "IMDB-MULTI", "DD", "REDDIT-BINARY"),
)
#: The metric of OGB's evaluator.
OGB = {
    "ogbg-molhiv": "rocauc",
    "ogbg-molbace": "rocauc",
    "ogbg-molesol": "rmse",
    "ogbg-molfreesolv": "rmse",
}


@dataclass(frozen=True)
class GraphTask:
    graphs: SetTable
    train: Tensor
    valid: Tensor
    test: Tensor
    num_outputs: int
    #: Called as ``loss(out, y)`` on outputs of the model.
    loss: Callable[[Tensor, Tensor], Tensor]
    #: Called as ``score(out, y)`` on outputs for a whole part.
    score: Callable[[Tensor, Tensor], float]
    #: Of a network whose outputs are not numbers.
    worst_score: float = 0.0


def load_tu_task(name: str, root: Path, run: Any) -> GraphTask:
    """A seed is a fold: ten of them are one cross-validation, the next ten another."""
    graphs = _tu_graphs(root, name, run.attributes, run.log_degrees)
    split, fold = divmod(run.seed, FOLDS)
    if run.splits == "public":
        train, valid, test = _public_split(root, name, fold)
    else:
        train, test = stratified_folds(graphs.y, FOLDS, seed=split)[fold]
        train, valid = _hold_out(train, graphs.y, FOLDS - 1, run.seed)
    num_classes = int(graphs.y.max()) + 1
    return GraphTask(
        graphs, train, valid, test, num_classes, F.cross_entropy, _accuracy
    )


def load_ogb_task(name: str, root: Path, run: Any) -> GraphTask:
    """OGB's scaffold split and evaluator; the seed is that of the model."""
    from ogb.graphproppred import Evaluator

    graphs, split = _ogb_graphs(root, name)
    evaluator = Evaluator(name)

    def score(out: Tensor, y: Tensor) -> float:
        return float(evaluator.eval({"y_true": y, "y_pred": out})[OGB[name]])

    parts = (graphs, split["train"], split["valid"], split["test"], graphs.y.size(1))
    if OGB[name] == "rocauc":
        loss = F.binary_cross_entropy_with_logits
        return GraphTask(*parts, lambda out, y: loss(out, y.to(out.dtype)), score)
    # The network learns targets of mean zero and deviation one.
    targets = graphs.y[split["train"]].double()
    shift, spread = targets.mean().item(), targets.std().item()
    return GraphTask(
        *parts,
        lambda out, y: F.mse_loss(out, ((y - shift) / spread).to(out.dtype)),
        lambda out, y: score(out * spread + shift, y),
        worst_score=1e6,
    )


def load_modelnet10(root: Path, run: Any) -> GraphTask:
    """A tenth of the training objects is for validation."""
    graphs, num_train = _modelnet10_graphs(root, run.elements)
    train, test = torch.arange(len(graphs)).split([num_train, len(graphs) - num_train])
    train, valid = _hold_out(train, graphs.y, FOLDS, run.seed)
    return GraphTask(graphs, train, valid, test, 10, F.cross_entropy, _accuracy)


#: Called as ``load(root, run)``; gives a ``GraphTask``.
DATASETS: Registry = Registry(
    "graph dataset",
    **{name: partial(load_tu_task, name) for name in TU},
    **{name: partial(load_ogb_task, name) for name in OGB},
    ModelNet10=load_modelnet10,
)

METRICS = dict.fromkeys(DATASETS, "accuracy") | OGB


def score_sign(dataset: str) -> int:
    """Minus one where less is better."""
    return -1 if METRICS[dataset] == "rmse" else 1


def predict(model: torch.nn.Module, batch: SetTable, device: torch.device) -> Tensor:
    x, index, edges, edge_attr = (
        None if values is None else values.to(device)
        for values in (batch.x, batch.index(), batch.joined_edges(), batch.edge_attr)
    )
    return model(x, edges, index, edge_attr=edge_attr, batch_size=len(batch))


def _accuracy(out: Tensor, y: Tensor) -> float:
    return (out.argmax(dim=-1) == y).double().mean().item()


def _hold_out(
    chosen: Tensor, y: Tensor, num_parts: int, seed: int
) -> tuple[Tensor, Tensor]:
    rest, part = stratified_folds(y[chosen], num_parts, seed)[0]
    return chosen[rest], chosen[part]


def _public_split(root: Path, name: str, fold: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of the fair comparison protocol (Errica et al., 2020)."""
    path = root / "splits" / f"{name}.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"splits=public needs {path}: a list of ten mappings with the lists "
            f"'train', 'validation' and 'test'"
        )
    parts = json.loads(path.read_text())[fold]
    return tuple(torch.tensor(parts[p]) for p in ("train", "validation", "test"))


def _one_at_a_time(root: Path) -> AbstractContextManager:
    """PyG and OGB process raw files in place: a second worker would read half of it."""
    root.mkdir(parents=True, exist_ok=True)
    is_writable = os.access(root, os.W_OK)  # else nothing is processed
    return FileLock(root / ".lock", mode=0o666) if is_writable else nullcontext()


@lru_cache(maxsize=1)
def _tu_graphs(root: Path, name: str, attributes: bool, log_degrees: bool) -> SetTable:
    with _one_at_a_time(root):
        dataset = load_tu(root / "TUDataset", name, use_node_attr=attributes)[0]
    graphs = SetTable.from_graphs(dataset)
    x = graphs.x
    if log_degrees:  # in some networks a few nodes have thousands of neighbours
        if dataset.num_node_labels or dataset.num_node_attributes:
            raise ValueError(f"log_degrees: the nodes of {name} have features")
        degrees = degree(graphs.joined_edges()[0], len(x))
        x = _standardised(degrees.log1p()[:, None])
    if attributes:  # they come first; labels, behind them, are zero or one
        count = dataset.num_node_attributes
        x = torch.cat([_standardised(x[:, :count]), x[:, count:]], dim=-1)
    return replace(graphs, x=x)


def _standardised(values: Tensor) -> Tensor:
    return (values - values.mean(0)) / values.std(0).clamp(min=1e-6)


@lru_cache(maxsize=1)
def _ogb_graphs(root: Path, name: str) -> tuple[SetTable, dict[str, Tensor]]:
    with _one_at_a_time(root):
        dataset, split = load_ogb(root / "ogb", name)
    return SetTable.from_graphs(dataset), split


@lru_cache(maxsize=1)
def _modelnet10_graphs(root: Path, elements: int | None) -> tuple[SetTable, int]:
    train, test = (
        SetTable.from_dataset(ModelNet10Points(root / "ModelNet10", train=is_train))
        for is_train in (True, False)
    )
    x, y = torch.cat([train.x, test.x]), torch.cat([train.y, test.y])
    sizes = torch.cat([train.ptr.diff(), test.ptr.diff()])
    if elements is not None:
        if not 0 < elements <= int(sizes.min()):
            raise ValueError(
                f"elements must be between 1 and {int(sizes.min())} (got {elements})"
            )
        # Points of an object come in random order: the first ones are a sample.
        rank = torch.cat([torch.arange(size) for size in sizes.tolist()])
        x, sizes = x[rank < elements], torch.full_like(sizes, elements)
    return SetTable(x, cumsum(sizes), y), len(train)
