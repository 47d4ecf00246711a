"""Embeds a data set with several processes, as one would a corpus of a billion sets.

The model is exported once. Every process loads the program, takes its share of the
shards, and writes the vectors of each shard to a file of its own: nothing is sent
between processes, and a shard that is on file is not embedded again, so a job that was
stopped goes on where it was. In the end the vectors are compared with those of one
process. On several machines, start it by ``torchrun`` on each of them with the same
``--output`` on a shared file system.
"""

import argparse
import os
import socket
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor
from torch.nn import Module

from gswe_pyg import GSWEAggregation

CHANNELS = 16


class Embedder(Module):
    """What is exported: elements and the boundaries of the sets to vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.readout = GSWEAggregation(CHANNELS, num_slices=16, num_points=4)

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        return self.readout(x, ptr=ptr)


def export(path: Path) -> None:
    torch.manual_seed(0)
    nodes, bounds = torch.export.Dim("nodes", min=2), torch.export.Dim("bounds", min=3)
    example = (torch.randn(7, CHANNELS), torch.tensor([0, 3, 3, 7]))
    shapes = ({0: nodes}, {0: bounds})
    program = torch.export.export(Embedder().eval(), example, dynamic_shapes=shapes)
    torch.export.save(program, path)


def load_shard(shard: int, num_sets: int) -> tuple[Tensor, Tensor]:
    """Ragged sets; in earnest, a file of the corpus."""
    generator = torch.Generator().manual_seed(shard)
    sizes = torch.randint(0, 60, (num_sets,), generator=generator)
    sizes[0] = 2
    ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    return torch.randn(int(ptr[-1]), CHANNELS, generator=generator), ptr


def embed_shards(rank: int, world_size: int, args: argparse.Namespace) -> None:
    """One process of the job; all have to be in the same process group."""
    torch.set_num_threads(args.threads)
    model = torch.export.load(args.output / "model.pt2").module()
    with torch.no_grad():
        model(*load_shard(0, num_sets=3))  # the first call compiles
    dist.barrier()
    ready = time.time()
    for shard in range(rank, args.shards, world_size):
        path = args.output / f"shard-{shard:05d}.pt"
        if path.exists():
            continue
        with torch.no_grad():
            vectors = model(*load_shard(shard, args.sets))
        temporary = path.with_suffix(f".{rank}.tmp")
        torch.save(vectors, temporary)
        temporary.replace(path)  # a shard is whole or absent
    dist.barrier()  # all shards are on file
    if rank == 0:
        print(f"{args.shards * args.sets:,} sets by {world_size} processes: ", end="")
        print(f"start-up {ready - args.start:.1f} s, work {time.time() - ready:.2f} s")


def worker(rank: int, world_size: int, port: int, args: argparse.Namespace) -> None:
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", address, rank=rank, world_size=world_size)
    embed_shards(rank, world_size, args)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="few sets: some seconds")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--sets", type=int, default=20_000, help="in each shard")
    parser.add_argument("--output", type=Path, help="folder of model and vectors")
    args = parser.parse_args()
    if args.fast:
        args.shards, args.sets = 5, 100
    args.start = time.time()  # a clock that all processes share

    with tempfile.TemporaryDirectory() as folder:
        args.output = args.output or Path(folder)
        args.output.mkdir(parents=True, exist_ok=True)
        if "RANK" in os.environ:  # started by torchrun: one of many processes
            dist.init_process_group("gloo")
            rank, world_size = dist.get_rank(), dist.get_world_size()
            if rank == 0:
                export(args.output / "model.pt2")
            dist.barrier()
            embed_shards(rank, world_size, args)
            dist.destroy_process_group()
            return

        export(args.output / "model.pt2")
        mp.spawn(worker, (args.processes, free_port(), args), nprocs=args.processes)

        model = torch.export.load(args.output / "model.pt2").module()
        torch.set_num_threads(args.threads)
        same = True
        for shard in range(args.shards):
            found = torch.load(args.output / f"shard-{shard:05d}.pt", weights_only=True)
            with torch.no_grad():
                expected = model(*load_shard(shard, args.sets))
            same &= found.equal(expected)
        print(f"the same vectors as one process: {'yes' if same else 'no'}")


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


if __name__ == "__main__":
    main()
