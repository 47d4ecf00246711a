"""A training epoch on documents (amazon), padded and not.

Both networks are the paper's for documents with GSWE's readout, and start from the same
parameters. One has bucketed batches and the backbone as it comes, whose linear layers
see each word once; the other has shuffled batches that are padded to their longest
document, as the common formulation of set attention is. Gathering the word vectors of a
batch is timed, too.
"""

import copy
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, ReLU, Sequential
from torch_geometric.utils import to_dense_batch

from benchmarks.speed.timing import (
    Record,
    record,
    skipped,
    take_turns,
    training_turn,
)
from gswe_pyg import GSWEAggregation
from gswe_pyg.datasets import SetDataset, WordSets
from gswe_pyg.loader import BucketBatchSampler
from gswe_pyg.models import SAB, StackedSAB

DATASET, BATCH_SIZE, POOL_SIZE, POINTS, HIDDEN = "amazon", 64, 8, 64, 128


class Network(Module):
    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.backbone: Module = StackedSAB(in_channels)
        channels = self.backbone.out_channels
        self.readout = GSWEAggregation(channels, channels, POINTS)
        self.head = Sequential(
            Linear(channels * POINTS, HIDDEN), ReLU(), Linear(HIDDEN, num_classes)
        )

    def forward(self, x: Tensor, index: Tensor, ptr: Tensor, num_sets: int) -> Tensor:
        return self.head(self.readout(self.backbone(x, index, ptr, num_sets), ptr=ptr))


class PaddedSAB(Module):
    """The same function as a :class:`StackedSAB`, with the same parameters, on a batch
    that is padded to its largest set."""

    def __init__(self, backbone: StackedSAB) -> None:
        super().__init__()
        self.sabs = backbone.sabs

    def forward(self, x: Tensor, index: Tensor, ptr: Tensor, num_sets: int) -> Tensor:
        dense, mask = to_dense_batch(x, index, batch_size=num_sets)
        attention_mask = mask[:, None, None, :]
        for sab in self.sabs:
            dense = _padded_block(sab, dense, attention_mask)
        return dense[mask]


def _padded_block(sab: SAB, dense: Tensor, attention_mask: Tensor) -> Tensor:
    qkv = sab.lin_qkv(dense)
    q, k, v = qkv.unflatten(-1, (3, sab.heads, -1)).permute(2, 0, 3, 1, 4)
    attended = F.scaled_dot_product_attention(q, k, v, attention_mask)
    hidden = qkv[..., : sab.out_channels] + attended.transpose(1, 2).flatten(2)
    return hidden + sab.lin_out(hidden).relu()


def load(data: Path) -> SetDataset:
    return WordSets(str(data), DATASET)


def measure(data: Path, steps: int, seed: int) -> Iterator[Record]:
    """The seconds of an epoch of both, from the mean of some steps."""
    try:
        dataset = load(data)
    except FileNotFoundError:
        yield from skipped(DATASET, ("bucketed", "padded_batches"))
        return
    torch.manual_seed(seed)
    model = Network(dataset.num_features, dataset.num_classes)
    padded = copy.deepcopy(model)
    padded.backbone = PaddedSAB(padded.backbone)
    bucketed = list(BucketBatchSampler(dataset, BATCH_SIZE, POOL_SIZE, seed))
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(dataset), generator=generator)
    shuffled = [chosen.tolist() for chosen in order.split(BATCH_SIZE)]

    def loss(model: Module, chosen: list[int]) -> Tensor:
        batch = dataset.get_batch(chosen)
        logits = model(batch.x, batch.batch, batch.ptr, batch.num_graphs)
        return F.cross_entropy(logits, batch.y)

    turns = {
        "bucketed": training_turn(model, loss, bucketed, fused=True),
        "padded_batches": training_turn(padded, loss, shuffled, fused=True),
    }
    for name, seconds in take_turns(turns, steps).items():
        # Batches are not alike: the mean, and not the median, makes an epoch.
        line = record(DATASET, name, "training", seconds)
        yield line | {"seconds": fmean(seconds) * len(bucketed)}
