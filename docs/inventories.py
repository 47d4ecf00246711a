"""Where the names of other packages are documented.

Sphinx would load the list of all their names from the network on every build. We refer
to a few, so this is the list, and a build needs no network.
"""

import zlib
from pathlib import Path

TORCH = "https://docs.pytorch.org/docs/stable/"
PYG = "https://pytorch-geometric.readthedocs.io/en/latest/"
NUMPY = "https://numpy.org/doc/stable/"
SKLEARN = "https://scikit-learn.org/stable/"
MATPLOTLIB = "https://matplotlib.org/stable/"
PANDAS = "https://pandas.pydata.org/docs/"

#: Page of each name: ``$`` stands for the name itself.
NAMES: dict[str, dict[str, dict[str, str]]] = {
    TORCH: {
        "class": {
            "torch.Tensor": "tensors.html#$",
            "torch.device": "tensor_attributes.html#$",
            "torch.dtype": "tensor_attributes.html#$",
            "torch.nn.Module": "generated/$.html#$",
            "torch.utils.data.DataLoader": "data.html#$",
        },
        "function": {
            "torch.manual_seed": "generated/$.html#$",
            "torch.sort": "generated/$.html#$",
        },
    },
    PYG: {
        "class": dict.fromkeys(
            (
                "torch_geometric.data.Data",
                "torch_geometric.data.InMemoryDataset",
                "torch_geometric.datasets.ModelNet",
                "torch_geometric.nn.aggr.Aggregation",
                "torch_geometric.nn.aggr.MedianAggregation",
                "torch_geometric.nn.aggr.QuantileAggregation",
                "torch_geometric.nn.conv.GINEConv",
                "torch_geometric.nn.models.GAT",
                "torch_geometric.nn.models.GCN",
                "torch_geometric.nn.models.GIN",
                "torch_geometric.nn.models.GraphSAGE",
                "torch_geometric.nn.models.PNA",
                "torch_geometric.transforms.FixedPoints",
                "torch_geometric.transforms.RandomJitter",
                "torch_geometric.transforms.RandomRotate",
                "torch_geometric.transforms.SamplePoints",
            ),
            "generated/$.html#$",
        )
        | {"torch_geometric.loader.DataLoader": "modules/loader.html#$"},
        # Docstrings call functions methods, as PyG's do.
        "method": {"torch_geometric.nn.pool.global_mean_pool": "generated/$.html#$"},
    },
    NUMPY: {
        "class": {
            "numpy.ndarray": "reference/generated/$.html#$",
            "numpy.random.RandomState": "reference/random/legacy.html#$",
        },
        "function": {"numpy.quantile": "reference/generated/$.html#$"},
    },
    SKLEARN: {
        "class": {
            "sklearn.base.TransformerMixin": "modules/generated/$.html#$",
            "sklearn.base.BaseEstimator": "modules/generated/$.html#$",
        }
    },
    MATPLOTLIB: {"class": {"matplotlib.axes.Axes": "api/_as_gen/$.html#$"}},
    PANDAS: {"class": {"pandas.DataFrame": "reference/api/$.html#$"}},
}


def write(folder: Path) -> dict[str, tuple[str, str]]:
    """A file for each package, and the setting that names them."""
    mapping = {}
    for url, kinds in NAMES.items():
        lines = [
            f"{name} py:{kind} 1 {page.replace('$', name)} -"
            for kind, names in kinds.items()
            for name, page in names.items()
        ]
        package = lines[0].partition(".")[0]
        path = folder / f"{package}.inv"
        head = (
            f"# Sphinx inventory version 2\n# Project: {package}\n# Version: \n"
            "# The remainder of this file is compressed using zlib.\n"
        )
        path.write_bytes(head.encode() + zlib.compress("\n".join(lines).encode()))
        mapping[package] = (url, str(path))
    return mapping
