"""Trains a set model on several processes, each of which gets its share of every epoch.

    torchrun --standalone --nproc-per-node=2 examples/distributed.py

GSWE is an ordinary module without buffers that would have to be kept in step: the
data-parallel wrapper of PyTorch does all there is to do. Without torchrun, this is one
process.
"""

import argparse
import gc
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn import Linear, Module, Sequential
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
from torch_geometric.data import Batch
from tqdm import tqdm

from gswe_pyg import GSWEAggregation
from gswe_pyg.datasets import SetCircles
from gswe_pyg.loader import SetLoader
from gswe_pyg.models import MLP, SetModel


class Net(Module):
    def __init__(self, num_classes: int):
        super().__init__()
        readout = GSWEAggregation(16, num_slices=16, num_points=8, out_channels=32)
        self.embed = SetModel(MLP(2, [32], 16), readout)
        self.classify = Sequential(torch.nn.ReLU(), Linear(32, num_classes))

    def forward(self, batch: Batch) -> torch.Tensor:
        out = self.embed(batch.pos, batch.batch, batch.ptr, batch.num_graphs)
        return self.classify(out)


def train(model: Module, data: SetCircles, epochs: int, seed: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    sampler = DistributedSampler(data, seed=seed)  # equal shares for all
    loader = SetLoader(data, batch_size=32, sampler=sampler)
    silent = True if dist.get_rank() > 0 else None  # None: unless someone watches
    for epoch in tqdm(range(epochs), "epochs", leave=False, disable=silent):
        sampler.set_epoch(epoch)
        for batch in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(batch), batch.y).backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model: Module, data: SetCircles) -> float:
    """Each process counts the hits in its share; the counts are added up."""
    rank, world = dist.get_rank(), dist.get_world_size()
    batch = data.get_batch(range(rank, len(data), world))
    hits = (model(batch).argmax(-1) == batch.y).sum()
    dist.all_reduce(hits)
    return hits.item() / len(data)


def largest_difference(model: Module) -> float:
    """How far the parameters of the processes are apart: zero, if all went well."""
    flat = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    first = flat.clone()
    dist.broadcast(first, src=0)
    difference = (flat - first).abs().max()
    dist.all_reduce(difference, dist.ReduceOp.MAX)
    return difference.item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--num-sets", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="200 sets, two epochs")
    args = parser.parse_args()
    num_sets, epochs = (200, 2) if args.fast else (args.num_sets, args.epochs)

    if "RANK" in os.environ:  # started by torchrun
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        compare(num_sets, epochs, args.seed)
        gc.collect()  # the wrapped model, which must not outlive the group
    finally:
        dist.destroy_process_group()


def compare(num_sets: int, epochs: int, seed: int) -> None:
    """Trains on all processes together; the first one prints what came out."""
    radii = (1.0, 1.4, 1.8, 2.2)
    train_data = SetCircles(num_sets=num_sets, radii=radii, seed=seed)
    test_data = SetCircles(train=False, num_sets=num_sets, radii=radii, seed=seed)
    torch.manual_seed(seed)
    net = Net(train_data.num_classes)
    net(train_data.get_batch(range(2))).sum().backward()  # the first call compiles
    start = time.perf_counter()
    train(DistributedDataParallel(net), train_data, epochs, seed)
    seconds = time.perf_counter() - start
    result, difference = accuracy(net, test_data), largest_difference(net)
    if dist.get_rank() == 0:
        print(f"{num_sets} sets, {epochs} epochs, seed {seed}\n")
        print("processes | test accuracy | seconds | parameters differ by")
        print("----------|---------------|---------|---------------------")
        print(
            f"{dist.get_world_size():>9} | {result:>13.3f} | {seconds:>7.1f} | "
            f"{difference:>20}"
        )
        print("\nSeconds of training, without the first call.")


if __name__ == "__main__":
    main()
