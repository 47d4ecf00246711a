"""Lets GraphGym read TU and OGB sets as the other benchmarks do.

Its own loaders give TU sets no split and those without node features no features, and
fail on OGB's files with torch 2.6 and later.
"""

from pathlib import Path

import torch
from torch_geometric.data import InMemoryDataset
from torch_geometric.graphgym.config import cfg
from torch_geometric.graphgym.loader import set_dataset_attr
from torch_geometric.graphgym.register import register_loader

from gswe_pyg.datasets import load_ogb, load_tu


@register_loader("gswe_benchmarks")
def load(format: str, name: str, folder: str) -> InMemoryDataset | None:
    """From ``folder/TUDataset`` and ``folder/ogb``; ``None`` is left to GraphGym."""
    if format == "PyG" and name.startswith("TU_"):
        dataset, _ = load_tu(Path(folder) / "TUDataset", name.removeprefix("TU_"))
        parts = _random_split(len(dataset))
    elif format == "OGB" and name.startswith("ogbg-mol"):
        dataset, split = load_ogb(Path(folder) / "ogb", name)
        parts = [split["train"], split["valid"], split["test"]]
    else:
        return None
    for part, index in zip(("train", "val", "test"), parts, strict=True):
        set_dataset_attr(dataset, f"{part}_graph_index", index, len(index))
    return dataset


def _random_split(num_graphs: int) -> list[torch.Tensor]:
    shares = cfg.dataset.split
    if len(shares) != 3 or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        wanted = "three positive shares that add up to one"
        raise ValueError(f"'dataset.split' must be {wanted} (got {shares})")
    generator = torch.Generator().manual_seed(cfg.seed)
    order = torch.randperm(num_graphs, generator=generator)
    held_out = [max(1, round(share * num_graphs)) for share in shares[1:]]
    return list(order.split([num_graphs - sum(held_out), *held_out]))
