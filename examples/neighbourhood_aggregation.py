"""Classifies nodes by the distribution of their neighbours' features.

The class of a node says how widely its neighbours' values are spread around zero, which
is their mean in every case. A layer that takes the mean cannot tell the classes apart,
one that aggregates by GSWE can. Some nodes have no neighbours: a class of their own.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import scatter

import gswe_pyg

CHANNELS = 8


def make_graph(num_nodes: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Features, edges, classes: 0 without neighbours, 1 narrow, 2 wide."""
    y = torch.randint(3, (num_nodes,), generator=generator)
    sizes = torch.randint(4, 12, (num_nodes,), generator=generator) * (y > 0)
    target = torch.arange(num_nodes).repeat_interleave(sizes)
    values = torch.randn(len(target), CHANNELS, generator=generator) * y[target, None]
    values -= scatter(values, target, dim_size=num_nodes, reduce="mean")[target]
    # Each neighbour is a node of its own, behind those that have a class.
    source = num_nodes + torch.arange(len(target))
    x = torch.cat([torch.zeros(num_nodes, CHANNELS), values])
    return x, torch.stack([source, target]), y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="100 nodes, ten steps")
    args = parser.parse_args()
    nodes, steps = (100, 10) if args.fast else (args.nodes, args.steps)

    gswe_pyg.register()  # from here on, PyG knows the name "gswe"
    options = {
        "in_channels": CHANNELS,
        "num_slices": CHANNELS,
        "num_points": 4,
        "out_channels": CHANNELS,  # SAGEConv expects as many channels as it has sent
    }
    generator = torch.Generator().manual_seed(args.seed)
    train, test = (make_graph(nodes, generator) for _ in range(2))
    for aggr, aggr_kwargs in {"mean": None, "gswe": options}.items():
        torch.manual_seed(args.seed)
        conv = SAGEConv(CHANNELS, 32, aggr=aggr, aggr_kwargs=aggr_kwargs)
        lin = torch.nn.Linear(32, 3)
        parameters = [*conv.parameters(), *lin.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=0.01)
        for _ in range(steps):
            x, edge_index, y = train
            out = lin(conv(x, edge_index).relu())[: len(y)]
            optimizer.zero_grad()
            F.cross_entropy(out, y).backward()
            optimizer.step()
        x, edge_index, y = test
        with torch.no_grad():
            out = lin(conv(x, edge_index).relu())[: len(y)]
        accuracy = (out.argmax(dim=-1) == y).float().mean()
        print(f"aggr={aggr!r}, seed {args.seed}: test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
