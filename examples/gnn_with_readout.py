"""Puts GSWE behind each of PyG's graph networks, and trains them for a few epochs.

On generated graphs, so that nothing is downloaded: this shows how to build the models,
not which is better.
"""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric import seed_everything
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GAT, GCN, GIN, PNA, GraphSAGE, summary
from torch_geometric.nn.conv import PNAConv

from gswe_pyg import GSWEAggregation
from gswe_pyg.models import GNNWithReadout

CHANNELS = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="one epoch")
    args = parser.parse_args()
    epochs = 1 if args.fast else args.epochs

    print(f"{epochs} epochs each, seed {args.seed}")
    seed_everything(args.seed)
    dataset = FakeDataset(200, avg_num_nodes=20, num_classes=4)
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    options = {"num_layers": 3, "norm": "batch_norm", "jk": "cat"}
    networks = {
        "GCN": GCN(dataset.num_features, CHANNELS, **options),
        "GIN": GIN(dataset.num_features, CHANNELS, **options),
        "GraphSAGE": GraphSAGE(dataset.num_features, CHANNELS, **options),
        "GAT": GAT(dataset.num_features, CHANNELS, heads=4, **options),
        "PNA": PNA(
            dataset.num_features,
            CHANNELS,
            aggregators=["mean", "max", "std"],
            scalers=["identity", "amplification"],
            deg=PNAConv.get_degree_histogram(loader),
            **options,
        ),
    }
    for name, network in networks.items():
        readout = GSWEAggregation(CHANNELS, CHANNELS, num_points=8, encode_size=True)
        model = GNNWithReadout(network, readout, dataset.num_classes)
        if name == "GCN":
            data = next(iter(loader))
            print(summary(model, data.x, data.edge_index, data.batch, max_depth=1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
        for _ in range(epochs):
            total = 0.0
            for data in loader:
                out = model(
                    data.x, data.edge_index, data.batch, batch_size=data.num_graphs
                )
                loss = F.cross_entropy(out, data.y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += float(loss.detach()) * data.num_graphs
        print(f"{name:<9} training loss {total / len(dataset):.3f}")


if __name__ == "__main__":
    main()
