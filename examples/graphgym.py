"""Trains a GraphGym model with GSWE as its readout, with a config in this file.

On generated graphs, so that nothing is downloaded. With data sets, use GraphGym's own
main script and import `gswe_pyg.graphgym` in it, or `python -m benchmarks graphgym`.
"""

import argparse
import logging
import tempfile
from pathlib import Path

import torch
from torch_geometric import seed_everything
from torch_geometric.datasets import FakeDataset
from torch_geometric.graphgym.config import cfg, load_cfg
from torch_geometric.graphgym.loss import compute_loss
from torch_geometric.graphgym.model_builder import create_model
from torch_geometric.loader import DataLoader

import gswe_pyg.graphgym  # noqa: F401

CONFIG = """
dataset:
  task: graph
  task_type: classification
gnn:
  head: gswe  # the line that makes the difference
  layers_mp: 2
  layers_post_mp: 2
  dim_inner: 32
  layer_type: ginconv
gswe:  # optional
  points: 8
  encode_size: True
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="two epochs")
    args = parser.parse_args()
    epochs = 2 if args.fast else args.epochs

    logging.disable(logging.WARNING)  # GraphGym tells which defaults it changes
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(CONFIG)
        load_cfg(cfg, argparse.Namespace(cfg_file=str(path), opts=[]))
    cfg.accelerator = "cpu"

    seed_everything(args.seed)
    dataset = FakeDataset(200, avg_num_nodes=20, num_classes=4)
    model = create_model(dim_in=dataset.num_features, dim_out=dataset.num_classes)
    print(model.post_mp.readout)
    print(f"{epochs} epochs, seed {args.seed}")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for batch in DataLoader(dataset, batch_size=32, shuffle=True):
            loss, _ = compute_loss(*model(batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * batch.num_graphs
        if epoch % 5 == 0 or epoch == epochs:
            print(f"epoch {epoch:>3}: loss {total / len(dataset):.3f}")


if __name__ == "__main__":
    main()
