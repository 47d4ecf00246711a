"""Readouts of graph networks against each other, with labels."""

from dataclasses import dataclass, replace
from statistics import median

import torch
from torch import Tensor
from torch_geometric.nn import GIN, MLP

from benchmarks.engine.config import PARTS, setting
from benchmarks.engine.grid import Context, Outcome
from benchmarks.engine.training import Best, epoch, num_parameters, significant
from benchmarks.experiments.graphs import controls
from benchmarks.experiments.graphs.data import (
    DATASETS,
    GraphTask,
    predict,
    score_sign,
)
from benchmarks.readouts import (
    HEAD_STARTS,
    IDLE,
    READOUTS,
    SLICERS,
    ReadoutSettings,
    Shape,
    WithSize,
)
from gswe_pyg.models import GINE, CategoryEncoder, GNNWithReadout


@dataclass(frozen=True)
class Run(ReadoutSettings):
    """The seed is that of the model and the batches, and also the fold of TU sets."""

    dataset: str = setting("MUTAG", DATASETS)
    readout: str = setting("gswe_linear", (*READOUTS, *controls.NAMES))
    points: int = setting(8, least=1)  # of the reference, nodes kept, quantiles
    slicer: str = setting("identity", SLICERS)  # of GSWE, behind the network
    hidden: int = setting(32, least=1)
    layers: int = setting(3, least=1)
    epochs: int = setting(100, least=1)
    batch_size: int = setting(32, least=1)
    learning_rate: float = 0.005
    dropout: float = 0.0
    elements: int | None = None  # of the 1,024 points of ModelNet10's objects
    train_graphs: None = None  # never set; in the names of all runs on file
    evaluate: str = setting("test", PARTS)
    attributes: bool = setting(False, added=True)  # of nodes: continuous, standardised
    schedule: str = setting("constant", ("constant", "cosine"), added=True)
    splits: str = setting("stratified", ("stratified", "public"), added=True)  # of TU
    with_size: bool = setting(False, added=True)  # log size appended to any readout
    extremes: bool = setting(True, added=True)  # of heads
    head_start: str = setting("moments", HEAD_STARTS, added=True)
    head_rate: float = setting(1.0, added=True)  # of their weights, times the others'
    directions: int = setting(0, least=0, added=True)  # of `parameter_free`; none: axes
    log_degrees: bool = setting(False, added=True)  # for TU sets without node labels

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden % 4 != 0:
            raise ValueError(
                "hidden must be a multiple of 4, for the attention's heads"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError("dropout must be at least 0 and less than 1")

    def canonical(self) -> "Run":
        run = super().canonical()
        if run.head_start == "extremes" and not run.extremes:
            run = replace(run, head_start=IDLE["head_start"])
        if self.readout != "parameter_free":
            run = replace(run, directions=Run.directions)
        if not self.is_control:
            return run
        idle = {"epochs": 1, "batch_size": 1, "learning_rate": 0.0, "dropout": 0.0}
        if self.readout == "parameter_free":
            idle |= {"hidden": 4, "layers": 1}
        return replace(run, **idle, schedule="constant")


class PointwiseMLP(MLP):
    """What stands for the graph network where there are no edges."""

    supports_edge_attr = supports_edge_weight = False

    def forward(self, x: Tensor, edge_index: Tensor, **batch: object) -> Tensor:
        return super().forward(x)


def execute(run: Run, context: Context) -> Outcome:
    """Trains, keeps the epoch that is best on the validation part, and tests that."""
    task, device = DATASETS[run.dataset](context.data, run), context.device

    torch.manual_seed(run.seed)
    if run.is_control:
        return _without_training(run, task)
    model = build(run, task).to(device)
    optimizer = torch.optim.Adam(_groups(run, model), run.learning_rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, run.epochs)

    # With the same seed, all readouts see the same batches.
    generator = torch.Generator().manual_seed(run.seed)
    sign, best, seconds = score_sign(run.dataset), Best(model), []
    curves: dict[str, list[float]] = {"valid": [], "train_loss": []}
    for number in range(run.epochs):
        model.train()
        shuffled = torch.randperm(len(task.train), generator=generator)
        batches = task.graphs.batches(task.train[shuffled], run.batch_size)
        losses, time = epoch(
            optimizer,
            (task.loss(predict(model, b, device), b.y.to(device)) for b in batches),
        )
        seconds.append(time)
        if run.schedule == "cosine":
            schedule.step()
        score, loss = evaluate(task, model, task.valid, run.batch_size, device)
        curves["valid"].append(round(score, 4))
        curves["train_loss"].append(significant(losses.mean().item(), 4))
        # Few graphs tie often: then, those that are surer.
        best.offer((sign * score, -loss), number)

    tested = {}
    if run.evaluate == "test":
        best.restore()
        test, _ = evaluate(task, model, task.test, run.batch_size, device)
        tested = {"test": round(test, 6)}
    return Outcome(
        metrics={
            **tested,
            "valid": round(sign * best.score[0], 6),
            "best_epoch": best.when,
            "train_loss": significant(losses.mean().item()),
            "epoch_seconds": significant(median(seconds), 4),
        },
        parameters=num_parameters(model),
        curves=curves,
    )


def _groups(run: Run, model: torch.nn.Module) -> list[dict]:
    """The parameters of the model; those of heads may have a rate of their own."""
    if run.head_rate == 1.0:
        return [{"params": [*model.parameters()]}]
    own = [p for n, p in model.named_parameters() if n.endswith("head_weight")]
    others = [p for n, p in model.named_parameters() if not n.endswith("head_weight")]
    rate = run.head_rate * run.learning_rate
    return [{"params": others}, {"params": own, "lr": rate}]


def build(run: Run, task: GraphTask) -> GNNWithReadout:
    """GIN, with embeddings of categories for molecules, or an MLP without edges."""
    graphs, hidden, encoders = task.graphs, run.hidden, {}
    options = {"norm": "batch_norm", "dropout": run.dropout}
    if graphs.edge_index is None:
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
    shape = Shape(
        hidden,
        run.points,
        max_nodes=graphs.max_size,
        slicer=run.slicer,
        extremes=run.extremes,
        head_start=run.head_start,
    )
    readout = READOUTS[run.readout].build(shape)
    if run.with_size:
        readout = WithSize(readout)
    model = GNNWithReadout(
        network, readout, task.num_outputs, dropout=run.dropout, **encoders
    )
    if READOUTS[run.readout].is_wide:
        # As many parameters as four heads have, of 16 points and the extremes.
        more = 3 * hidden * (hidden + 24) // (hidden + 2 + task.num_outputs)
        widths = [model.head.channel_list[0], hidden + more, task.num_outputs]
        model.head = MLP(widths, dropout=[run.dropout, 0.0], norm=None)
    return model


def _without_training(run: Run, task: GraphTask) -> Outcome:
    if run.readout == "untrained":
        model = build(replace(run, readout="gswe_heads4", points=16), task)
        x = controls.of_untrained(model, task)
    elif run.directions > 0:
        x = controls.of_directions(task, run.with_size, run.directions, run.seed)
    else:
        x = controls.of_features(task, run.with_size)
    scores = controls.fit(x, task, is_regression=score_sign(run.dataset) < 0)
    if run.evaluate != "test":
        del scores["test"]
    num_models = 1 if task.num_outputs == 2 else task.num_outputs
    return Outcome(scores, parameters=num_models * (x.size(1) + 1))


@torch.no_grad()
def evaluate(
    task: GraphTask,
    model: torch.nn.Module,
    part: Tensor,
    batch_size: int,
    device: torch.device,
) -> tuple[float, float]:
    """The score and the loss on a part."""
    model.eval()
    batches = task.graphs.batches(part, 4 * batch_size)
    out = torch.cat([predict(model, batch, device).float().cpu() for batch in batches])
    if not out.isfinite().all():  # to lose is better than to end the benchmark
        return task.worst_score, float("inf")
    y = task.graphs.y[part]
    return task.score(out, y), task.loss(out, y).item()
