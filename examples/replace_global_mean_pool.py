"""Trains the same GIN with mean pooling and with GSWE as its readout.

On MUTAG if it lies in ``--root`` (PyG downloads it with ``--download``), otherwise on
generated graphs. One split and few epochs: this shows how, not which is better.
"""

import argparse
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset, TUDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, MeanAggregation
from torch_geometric.nn.aggr import Aggregation
from tqdm import tqdm

from gswe_pyg import GSWEAggregation


class Net(Module):
    def __init__(self, in_channels: int, num_classes: int, readout: Aggregation):
        super().__init__()
        self.gnn = GIN(in_channels, 32, num_layers=3)
        self.readout = readout
        self.lin = Linear(32, num_classes)

    def forward(self, data: Data) -> Tensor:
        x = self.gnn(data.x, data.edge_index)
        x = self.readout(x, data.batch, dim_size=data.num_graphs)
        return self.lin(x.relu())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--root", default="data/TUDataset", help="folder of TU data sets"
    )
    parser.add_argument("--download", action="store_true", help="download MUTAG")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="one epoch")
    args = parser.parse_args()
    epochs = 1 if args.fast else args.epochs

    if args.download or (Path(args.root) / "MUTAG").exists():
        dataset, name = TUDataset(args.root, "MUTAG"), "MUTAG"
    else:
        seed_everything(args.seed)
        dataset, name = FakeDataset(200, avg_num_nodes=20, num_classes=4), "generated"
    permutation = torch.randperm(
        len(dataset), generator=torch.Generator().manual_seed(args.seed)
    )
    num_train = int(0.8 * len(dataset))
    train = DataLoader(dataset[permutation[:num_train]], 32, shuffle=True)
    test = DataLoader(dataset[permutation[num_train:]], 256)
    print(f"{name}: {len(dataset)} graphs, {dataset.num_classes} classes, ", end="")
    print(f"{epochs} epochs, seed {args.seed}\n")

    print("readout | test accuracy | seconds")
    print("--------|---------------|--------")
    for label in ("mean", "GSWE"):
        seed_everything(args.seed)
        is_ours = label == "GSWE"
        readout = GSWEAggregation(32, heads=1) if is_ours else MeanAggregation()
        model = Net(dataset.num_features, dataset.num_classes, readout)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
        model(next(iter(test))).sum().backward()  # the first call compiles
        start = time.perf_counter()
        for _ in tqdm(range(epochs), label, leave=False, disable=None):
            for data in train:
                optimizer.zero_grad()
                F.cross_entropy(model(data), data.y).backward()
                optimizer.step()
        seconds = time.perf_counter() - start
        model.eval()
        with torch.no_grad():
            hits = sum(int((model(data).argmax(-1) == data.y).sum()) for data in test)
        accuracy = hits / len(test.dataset)
        print(f"{label:<7} | {accuracy:>13.3f} | {seconds:>7.1f}")
    print("\nSeconds of training, without the first call.")
    print("\nWhat GSWE has learned, by channel:")
    print(readout.describe())


if __name__ == "__main__":
    main()
