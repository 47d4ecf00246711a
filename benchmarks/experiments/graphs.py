"""Readouts of graph networks against each other, with labels."""

import copy
import time
from dataclasses import dataclass, replace
from statistics import median

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch_geometric.nn import GIN, MLP

from benchmarks.config import RunSettings
from benchmarks.experiments.graphs_report import report
from benchmarks.graph_data import METRICS, GraphTask
from benchmarks.graph_readouts import GSWE, SIZELESS
from benchmarks.graph_table import GraphTable
from benchmarks.registry import (
    GRAPH_DATASETS,
    GRAPH_READOUTS,
    PARTS,
    SLICERS,
    check_choices,
)
from benchmarks.work import Context, Outcome
from gswe_pyg.models import GINE, CategoryEncoder, GNNWithReadout

__all__ = ["Run", "execute", "report"]


@dataclass(frozen=True)
class Run(RunSettings):
    """The seed is that of the model and the batches, and also the fold of TU sets."""

    dataset: str = "MUTAG"
    readout: str = "gswe_linear"
    points: int = 8  # elements of the reference, nodes kept by sorting, quantiles
    slicer: str = "identity"  # of GSWE, behind the network
    hidden: int = 32
    layers: int = 3
    epochs: int = 100
    batch_size: int = 32
    learning_rate: float = 0.005
    dropout: float = 0.0
    elements: int | None = None  # of the 1,024 points of ModelNet10's objects
    train_graphs: int | None = None  # all
    evaluate: str = "test"  # or "validation", for choices that must not see the test

    def __post_init__(self) -> None:
        GRAPH_DATASETS[self.dataset]
        GRAPH_READOUTS[self.readout]
        for name in ("points", "hidden", "layers", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        check_choices(self, slicer=SLICERS, evaluate=PARTS)
        if self.train_graphs is not None and self.train_graphs < self.batch_size:
            raise ValueError("train_graphs must be at least batch_size")
        if self.hidden % 4 != 0:
            raise ValueError(
                "hidden must be a multiple of 4, for the attention's heads"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError("dropout must be at least 0 and less than 1")

    def canonical(self) -> "Run":
        run = replace(self, points=1) if self.readout in SIZELESS else self
        return run if self.readout in GSWE else replace(run, slicer=Run.slicer)


class PointwiseMLP(MLP):
    """What stands for the graph network where there are no edges."""

    supports_edge_attr = supports_edge_weight = False

    def forward(self, x: Tensor, edge_index: Tensor, **batch: object) -> Tensor:
        return super().forward(x)


def execute(run: Run, context: Context) -> Outcome:
    """Trains, keeps the epoch that is best on the validation part, and tests that."""
    fabric = context.fabric
    if fabric.world_size > 1:
        raise ValueError(
            "this experiment trains in one process: use workers=N instead of devices=N"
        )
    task = GRAPH_DATASETS[run.dataset](context.data, run)
    context.listener.start(f"{run.dataset} {run.readout}", run.epochs)

    torch.manual_seed(run.seed)
    model = build(run, task)
    optimizer = torch.optim.Adam(model.parameters(), run.learning_rate, fused=True)
    model, optimizer = fabric.setup(model, optimizer)

    # With the same seed, all readouts see the same batches.
    generator = torch.Generator().manual_seed(run.seed)
    train = task.train
    if run.train_graphs is not None:
        train = train[torch.randperm(len(train), generator=generator)]
        train = train[: run.train_graphs]
    sign = -1 if METRICS[run.dataset] == "rmse" else 1
    best, best_epoch, best_state, seconds = None, 0, None, []
    for epoch in range(run.epochs):
        start = time.process_time()
        model.train()
        order = train[torch.randperm(len(train), generator=generator)]
        losses = [
            _step(task, model, optimizer, batch, fabric)
            for batch in task.graphs.batches(order, run.batch_size)
        ]
        seconds.append(time.process_time() - start)
        score, loss = evaluate(task, model, task.valid, run.batch_size, fabric)
        # Few graphs tie often: then, those that are surer.
        if best is None or (sign * score, -loss) > best:
            best, best_epoch = (sign * score, -loss), epoch
            best_state = copy.deepcopy(model.state_dict())
        context.listener.epoch()

    tested = {}
    if run.evaluate == "test":
        model.load_state_dict(best_state)
        test, _ = evaluate(task, model, task.test, run.batch_size, fabric)
        tested = {"test": round(test, 6)}
    return Outcome(
        metrics={
            **tested,
            "valid": round(sign * best[0], 6),
            "best_epoch": best_epoch,
            "train_loss": float(f"{torch.stack(losses).mean().item():.6g}"),
            "epoch_seconds": float(f"{median(seconds):.4g}"),
        },
        parameters=sum(p.numel() for p in model.parameters()),
    )


def build(run: Run, task: GraphTask) -> GNNWithReadout:
    """GIN, with embeddings of categories for molecules, or an MLP without edges."""
    graphs, hidden, encoders = task.graphs, run.hidden, {}
    options = {"norm": "batch_norm", "dropout": run.dropout}
    if graphs.edge_index.size(1) == 0:
        widths = [graphs.x.size(1)] + [hidden] * run.layers
        network = PointwiseMLP(widths, **options)
    elif not graphs.x.is_floating_point():
        network = GINE(hidden, hidden, run.layers, hidden, jk="cat", **options)
        encoders = {
            "node_encoder": CategoryEncoder.of_atoms(hidden),
            "edge_encoder": CategoryEncoder.of_bonds(hidden),
        }
    else:
        network = GIN(graphs.x.size(1), hidden, run.layers, jk="cat", **options)
    settings = {"slicer": run.slicer} if run.readout in GSWE else {}
    readout = GRAPH_READOUTS[run.readout](
        hidden, run.points, graphs.max_nodes, **settings
    )
    return GNNWithReadout(
        network, readout, task.num_outputs, dropout=run.dropout, **encoders
    )


def _step(
    task: GraphTask,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: GraphTable,
    fabric: Fabric,
) -> Tensor:
    loss = task.loss(predict(model, batch, fabric), fabric.to_device(batch.y))
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
    return loss.detach()


def predict(model: torch.nn.Module, batch: GraphTable, fabric: Fabric) -> Tensor:
    x, edge_index, index = fabric.to_device(
        (batch.x, batch.joined_edges(), batch.index())
    )
    edge_attr = batch.edge_attr
    if edge_attr is not None:
        edge_attr = fabric.to_device(edge_attr)
    return model(x, edge_index, index, edge_attr=edge_attr, batch_size=len(batch))


@torch.no_grad()
def evaluate(
    task: GraphTask,
    model: torch.nn.Module,
    part: Tensor,
    batch_size: int,
    fabric: Fabric,
) -> tuple[float, float]:
    """The score and the loss on a part."""
    model.eval()
    batches = task.graphs.batches(part, 4 * batch_size)
    out = torch.cat([predict(model, batch, fabric).float().cpu() for batch in batches])
    if not out.isfinite().all():  # to lose is better than to end the benchmark
        return task.worst_score, float("inf")
    y = task.graphs.y[part]
    return task.score(out, y), task.loss(out, y).item()
