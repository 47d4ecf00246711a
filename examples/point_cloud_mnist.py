"""Classifies handwritten digits as sets of points, with mean pooling and with GSWE.

Each pixel that is not black is a point in the plane. On MNIST if it lies in ``--root``
(it is downloaded with ``--download``), otherwise on the 8x8 digits that come with
scikit-learn, where grey values are the masses of the points.
"""

import argparse
import time
from pathlib import Path

import matplotlib
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP
from tqdm import tqdm

matplotlib.use("Agg")  # a file, whether or not there is a screen
from matplotlib import pyplot as plt

from gswe_pyg import GSWEAggregation
from gswe_pyg.datasets import PointCloudMNIST

HIDDEN = 64
# With one point, barycentric GSWE is the mean: weighted, and of slices.
POINTS = {"mean": 1, "GSWE": 16}


class Net(Module):
    def __init__(self, num_points: int):
        super().__init__()
        self.mlp = MLP([2, HIDDEN, HIDDEN], norm=None)
        self.readout = GSWEAggregation(
            HIDDEN,
            num_slices=HIDDEN,
            num_points=num_points,
            interpolation="barycentric",
            slicer="identity",
            reference="slice",
        )
        self.lin = Linear(self.readout.embedding_channels, 10)

    def forward(self, data: Data) -> Tensor:
        x = self.mlp(data.pos)
        x = self.readout(
            x, data.batch, dim_size=data.num_graphs, weight=data.get("weight")
        )
        return self.lin(x)


def digits_of_scikit_learn() -> list[Data]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    graphs = []
    images = torch.from_numpy(images).view(-1, 8, 8)
    for image, label in zip(images, labels, strict=True):
        row, column = image.nonzero().t()
        graphs.append(
            Data(
                pos=torch.stack([column, 7 - row], dim=1).float() / 3.5 - 1,
                weight=image[row, column].float(),
                y=torch.tensor([int(label)]),
            )
        )
    return graphs


def scaled(data: Data) -> Data:
    data.pos = data.pos / 13.5 - 1  # pixels to [-1, 1]
    return data


def load(root: str, download: bool, num_sets: int, seed: int) -> tuple[str, list, list]:
    """A name, the sets to learn from and the sets to test on."""
    generator = torch.Generator().manual_seed(seed)
    if download or (Path(root) / "raw").exists():
        train = PointCloudMNIST(root, transform=scaled)
        test = PointCloudMNIST(root, train=False, transform=scaled)
        train = train[torch.randperm(len(train), generator=generator)[:num_sets]]
        test = test[torch.randperm(len(test), generator=generator)[: num_sets // 5]]
        return "MNIST", train, test
    graphs = digits_of_scikit_learn()
    order = torch.randperm(len(graphs), generator=generator)[:num_sets].tolist()
    border = int(0.8 * len(order))
    graphs = [graphs[i] for i in order]
    return "digits of scikit-learn", graphs[:border], graphs[border:]


@torch.no_grad()
def draw(model: Module, test: list[Data], path: Path) -> None:
    """Ten of the sets to test on, and what the model takes them for."""
    plt.style.use("gswe_pyg.style")
    data = next(iter(DataLoader(test, 10)))
    found = model(data).argmax(-1).tolist()
    figure, axes = plt.subplots(2, 5, figsize=(8, 3.6), layout="constrained")
    for axis, graph, label in zip(axes.flat, data.to_data_list(), found, strict=True):
        axis.scatter(*graph.pos.t(), s=6)
        axis.set(aspect="equal", xticks=[], yticks=[], xlim=(-1.2, 1.2))
        axis.set_title(f"{int(graph.y)}, found {label}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(f"picture: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default="data/MNIST", help="folder of MNIST")
    parser.add_argument("--download", action="store_true", help="download MNIST")
    parser.add_argument("--num-sets", type=int, default=3000, help="to learn from")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--output", type=Path, default=Path("results-examples/digits.png")
    )
    parser.add_argument("--fast", action="store_true", help="200 sets, one epoch")
    args = parser.parse_args()
    num_sets, epochs = (200, 1) if args.fast else (args.num_sets, args.epochs)

    name, train, test = load(args.root, args.download, num_sets, args.seed)
    print(f"{name}: {len(train)} sets to learn from, {len(test)} to test on, ", end="")
    print(f"{epochs} epochs, seed {args.seed}\n")

    print("readout | test accuracy | seconds")
    print("--------|---------------|--------")
    for label, num_points in POINTS.items():
        seed_everything(args.seed)
        model = Net(num_points)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
        data = next(iter(DataLoader(test, 32)))
        model(data).sum().backward()  # the first call compiles
        start = time.perf_counter()
        for _ in tqdm(range(epochs), label, leave=False, disable=None):
            for data in DataLoader(train, 32, shuffle=True):
                optimizer.zero_grad()
                F.cross_entropy(model(data), data.y).backward()
                optimizer.step()
        seconds = time.perf_counter() - start
        model.eval()
        with torch.no_grad():
            hits = [model(data).argmax(-1) == data.y for data in DataLoader(test, 256)]
        accuracy = torch.cat(hits).double().mean().item()
        print(f"{label:<7} | {accuracy:>13.3f} | {seconds:>7.1f}")
    print(
        "\nSeconds of training, without the first call. One seed: this shows how, ",
        end="",
    )
    print("not which is better.")
    draw(model, test, args.output)


if __name__ == "__main__":
    main()
