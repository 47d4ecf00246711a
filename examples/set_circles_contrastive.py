"""Learns embeddings of sets without labels, and lets the nearest neighbour classify.

A perceptron and a readout are trained by SimCLR or SimSiam on pairs of random rotations
of the sets of Set-Circles. Then each test set gets the label of the training set whose
embedding is nearest. ``python -m benchmarks run set_circles`` is the same with many
seeds, and records on file.
"""

import argparse
import time

import torch
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.nn import MeanAggregation
from torch_geometric.nn.aggr import Aggregation
from tqdm import tqdm

from gswe_pyg import GSWEAggregation, simclr_loss, simsiam_loss
from gswe_pyg.datasets import SetCircles
from gswe_pyg.loader import SetLoader
from gswe_pyg.models import MLP, PMA, SetModel
from gswe_pyg.transforms import RandomRotation, TwoViews

CHANNELS, POINTS = 4, 4


def readouts() -> dict[str, Aggregation]:
    gswe = GSWEAggregation(CHANNELS, CHANNELS, POINTS, slicer="identity")
    return {"mean": MeanAggregation(), "PMA": PMA(CHANNELS, POINTS), "GSWE": gswe}


def train(model: SetModel, data: SetCircles, loss: str, epochs: int, label: str):
    """Two random rotations of a set should be embedded alike."""
    loss_function = {"simclr": simclr_loss, "simsiam": simsiam_loss}[loss]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    views = TwoViews(RandomRotation())
    for _ in tqdm(range(epochs), label, leave=False, disable=None):
        for batch in SetLoader(data, batch_size=32, shuffle=True):
            first, second = views(batch)
            optimizer.zero_grad()
            z = model(first.pos, first.batch, first.ptr, first.num_graphs)
            z_bar = model(second.pos, second.batch, second.ptr, second.num_graphs)
            loss_function(z, z_bar).backward()
            optimizer.step()


def embed(model: SetModel, data: SetCircles) -> tuple[Tensor, Tensor]:
    batch = next(iter(SetLoader(data, batch_size=len(data))))
    return model(batch.pos, batch.batch, batch.ptr, batch.num_graphs), batch.y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loss", choices=["simclr", "simsiam"], default="simclr")
    parser.add_argument("--noise", type=float, default=0.3, help="of the circles")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="two epochs")
    args = parser.parse_args()
    epochs = 2 if args.fast else args.epochs

    train_data = SetCircles(noise=args.noise)
    test_data = SetCircles(train=False, noise=args.noise)
    print(f"Set-Circles: {len(train_data)} sets to learn from, ", end="")
    print(f"{len(test_data)} to classify, {args.loss}, {epochs} epochs, ", end="")
    print(f"seed {args.seed}\n")

    print("readout | 1-NN accuracy | seconds")
    print("--------|---------------|--------")
    for label in readouts():
        seed_everything(args.seed)
        model = SetModel(MLP(2, [64, 64], CHANNELS), readouts()[label])
        z, _ = embed(model, test_data)
        z.sum().backward()  # the first call compiles
        start = time.perf_counter()
        train(model, train_data, args.loss, epochs, label)
        seconds = time.perf_counter() - start
        with torch.no_grad():
            z_train, y_train = embed(model, train_data)
            z_test, y_test = embed(model, test_data)
        nearest = torch.cdist(z_test, z_train).argmin(dim=1)
        accuracy = (y_train[nearest] == y_test).double().mean().item()
        print(f"{label:<7} | {accuracy:>13.3f} | {seconds:>7.1f}")
    print(
        "\nSeconds of training, without the first call. One seed: this shows how, ",
        end="",
    )
    print("not which is better.")


if __name__ == "__main__":
    main()
