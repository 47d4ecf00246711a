"""``python -m benchmarks epoch``: a training epoch on amazon, padded and not.

Both contenders are the paper's network for documents with GSWE's readout, start from
the same parameters and take turns, step by step, in one process. One has bucketed
batches and the backbone as it comes, whose linear layers see each word once; the other
has shuffled batches that are padded to their longest document, as the common
formulation of set attention is. Gathering the word vectors of a batch is timed, too.
"""

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Batch
from torch_geometric.utils import to_dense_batch

from benchmarks import provenance
from benchmarks.config import HERE
from benchmarks.experiments.supervised import POOL_SIZE, Run, build, split
from benchmarks.registry import LABELLED_DATASETS
from benchmarks.report import replace_part
from benchmarks.speed_timing import Bystanders, bar, no_garbage_collection
from benchmarks.tables import markdown
from gswe_pyg.datasets import SetDataset
from gswe_pyg.loader import BucketBatchSampler
from gswe_pyg.models import SAB, StackedSAB

RESULTS, README = HERE / "results", HERE / "README.md"

OURS, PADDED = "bucketed, not padded", "shuffled and padded"

#: What the project demands of itself: at most so many seconds where the padded epoch
#: takes so many. On another machine the ratio of the two is what counts.
MOST_SECONDS, PADDED_SECONDS = 15.0, 39.0

RUN = Run(dataset="amazon", readout="gswe_linear", points=64)

Record = dict[str, Any]


def main(argv: list[str]) -> int:
    arguments = _parser().parse_args(argv)
    path = arguments.output / "epoch.json"
    if arguments.report:
        if not path.exists():
            print(f"error: no results in {path}: measure first", file=sys.stderr)
            return 2
        text = render(json.loads(path.read_text()))
        print(text)
        if arguments.output.resolve() == RESULTS:
            README.write_text(replace_part(README.read_text(), "epoch", text))
        return 0
    torch.set_num_threads(arguments.threads)
    try:
        dataset = LABELLED_DATASETS[RUN.dataset](arguments.data)
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    bystanders = Bystanders()
    result = {
        **measure(dataset, arguments.seed, arguments.steps),
        **provenance.of_measurement(bystanders.share()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{render(result)}\n\nresults: {path}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks epoch", description=__doc__)
    add = parser.add_argument
    add("--report", action="store_true", help="render what is on file, measure nothing")
    add("--output", type=Path, default=RESULTS, metavar="DIR", help="of the results")
    add("--data", type=Path, default=Path("data"), metavar="DIR", help="the data sets")
    add("--threads", type=int, default=2, metavar="N", help="threads of PyTorch")
    add("--seed", type=int, default=0, metavar="N", help="of batches and parameters")
    add("--steps", type=int, metavar="N", help="so many only, scaled to the epoch")
    return parser


def measure(dataset: SetDataset, seed: int, num_steps: int | None = None) -> Record:
    """The seconds of an epoch of each contender, all steps timed one by one."""
    train, _ = split(dataset, RUN)
    torch.manual_seed(seed)
    model = build(RUN, dataset.num_features, dataset.num_classes)
    padded = copy.deepcopy(model)
    padded.backbone = PaddedSAB(padded.backbone)
    batches = {
        OURS: list(BucketBatchSampler(train, RUN.batch_size, POOL_SIZE, seed)),
        PADDED: list(_shuffled(len(train), seed)),
    }
    steps = {OURS: _make_step(model, train), PADDED: _make_step(padded, train)}
    for name, step in steps.items():  # warm up
        step(batches[name][0])
    steps_in_epoch = len(batches[OURS])
    timed = min(num_steps or steps_in_epoch, steps_in_epoch)
    seconds = dict.fromkeys(steps, 0.0)
    for i in bar(range(timed), "amazon", "step"):
        for name in (OURS, PADDED) if i % 2 == 0 else (PADDED, OURS):
            with no_garbage_collection():
                begin = time.perf_counter()
                steps[name](batches[name][i])
                seconds[name] += time.perf_counter() - begin
    scale = steps_in_epoch / timed
    return {
        "dataset": RUN.dataset,
        "readout": RUN.readout,
        "points": RUN.points,
        "batch_size": RUN.batch_size,
        "documents": len(train),
        "seed": seed,
        "steps": steps_in_epoch,
        "steps_timed": timed,
        "epoch_seconds": {
            name: float(f"{s * scale:.6g}") for name, s in seconds.items()
        },
        "ratio": round(seconds[OURS] / seconds[PADDED], 4),
    }


def _shuffled(num_sets: int, seed: int) -> Iterator[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    for batch in torch.randperm(num_sets, generator=generator).split(RUN.batch_size):
        yield batch.tolist()


def _make_step(model: Module, train: SetDataset) -> Callable[[list[int]], None]:
    optimizer = torch.optim.Adam(model.parameters(), RUN.learning_rate, fused=True)

    def step(chosen: list[int]) -> None:
        batch: Batch = train.get_batch(chosen)
        logits = model(batch.x, batch.batch, batch.ptr, batch.num_graphs)
        optimizer.zero_grad()
        F.cross_entropy(logits, batch.y).backward()
        optimizer.step()

    return step


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


def render(result: Record) -> str:
    """What came out, and whether it is what was demanded."""
    seconds = result["epoch_seconds"]
    rows = [[name, f"{s:.1f}"] for name, s in seconds.items()]
    bound = MOST_SECONDS / PADDED_SECONDS
    bars = [
        _bar("seconds of the epoch", MOST_SECONDS, seconds[OURS], ".1f"),
        _bar("share of the padded epoch", bound, result["ratio"], ".3f"),
    ]
    scaled = (
        "all steps timed"
        if result["steps_timed"] == result["steps"]
        else f"{result['steps_timed']} of {result['steps']} steps timed, and scaled"
    )
    return "\n\n".join(
        [
            f"A training epoch on {result['dataset']} ({result['documents']:,} "
            f"documents, batches of {result['batch_size']}, GSWE with "
            f"{result['points']} points, {scaled}, the two taking turns in one "
            f"process; {result['threads']} threads, seed {result['seed']}, "
            f"{result['busy']:.0%} of the processors taken by others, torch "
            f"{result['versions']['torch']}, commit {result['commit']}):",
            markdown(["batches", "seconds"], rows),
            markdown(["bar", "demanded", "measured", "reached"], bars),
        ]
    )


def _bar(name: str, most: float, value: float, digits: str) -> list[str]:
    reached = "yes" if value <= most else "**no**"
    return [name, f"<= {most:{digits}}", f"{value:{digits}}", reached]
