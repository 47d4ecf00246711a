import os
import os.path as osp
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor
from torch_geometric.datasets import TUDataset as PyGTUDataset
from torch_geometric.io import fs
from torch_geometric.utils import degree, one_hot

from gswe_pyg.datasets.processed_file import check_readable
from gswe_pyg.datasets.raw_files import extract_zip, remove_empty
from gswe_pyg.datasets.splits import stratified_folds

MAX_ONE_HOT_DEGREE = 1000


class TUDataset(PyGTUDataset):
    """PyG's own, whose download writes wherever the names in the archive lead to."""

    def download(self) -> None:
        archive = osp.join(self.raw_dir, f"{self.name}.zip")
        folder = osp.join(self.raw_dir, self.name)
        try:
            fs.cp(f"{self.url}/{self.name}.zip", archive)
            extract_zip(archive, self.raw_dir)
            for name in os.listdir(folder):
                os.replace(osp.join(folder, name), osp.join(self.raw_dir, name))
            os.rmdir(folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(archive)


def load_tu(
    root: str | os.PathLike[str],
    name: str,
    num_folds: int = 10,
    seed: int = 0,
    use_node_attr: bool = False,
    transform: Callable | None = None,
) -> tuple[TUDataset, list[tuple[Tensor, Tensor]]]:
    r"""Opens a TU data set through PyG, with node features and the usual splits.

    Sets without node features, such as :obj:`"IMDB-BINARY"`, get one-hot node degrees,
    or, where degrees exceed 1,000 as in :obj:`"REDDIT-BINARY"`, the standardised
    degree as a single feature.

    Args:
        root (str): The folder of all TU data sets. Raw files are read from
            :obj:`root/name/raw`, and downloaded to it when missing.
        name (str): The name of the data set.
        num_folds (int, optional): The number of stratified folds.
            (default: :obj:`10`)
        seed (int, optional): The seed of the folds. (default: :obj:`0`)
        use_node_attr (bool, optional): Whether to include continuous node attributes.
            (default: :obj:`False`)
        transform (callable, optional): A transform applied on every access.
            (default: :obj:`None`)

    Returns:
        The data set, and one pair of index tensors :obj:`(train, test)` per fold.

    Example:
        >>> from gswe_pyg.datasets import load_tu
        >>> dataset, folds = load_tu("data/TUDataset", "MUTAG")
        >>> len(dataset), len(folds)
        (188, 10)
    """
    root = os.fspath(root)
    folder = osp.join(root, name)
    expected = [f"{name}_A.txt", f"{name}_graph_indicator.txt"]
    has_raw = all(osp.exists(osp.join(folder, "raw", file)) for file in expected)
    # PyG opens whatever it finds there, if need be by running the code inside.
    check_readable(osp.join(folder, "processed"))
    try:
        dataset = TUDataset(root, name, transform, use_node_attr=use_node_attr)
    except Exception as error:
        if has_raw and isinstance(error, OSError):
            raise
        if has_raw:
            raise ValueError(
                f"the files in '{osp.join(folder, 'raw')}' cannot be read: {error}"
            ) from error
        remove_empty(osp.join(folder, "raw"), folder)
        raise FileNotFoundError(
            f"{name!r} is not a TU data set, or could not be downloaded ({error}). Put "
            f"the files {expected} and the other files of its archive into "
            f"'{osp.join(folder, 'raw')}'"
        ) from error
    if dataset._data.x is None or dataset._data.x.size(1) == 0:
        add_degree_features(dataset)
    return dataset, stratified_folds(dataset._data.y, num_folds, seed)


def add_degree_features(dataset: TUDataset) -> None:
    """Gives node degrees to a collated data set, without an object per graph."""
    data, slices = dataset._data, dataset.slices
    if data.x is None:
        num_nodes = torch.tensor([0, *data._num_nodes])
        slices["x"] = num_nodes.cumsum(0)
    node_slices = slices["x"]
    num_edges = slices["edge_index"].diff()
    source = data.edge_index[0] + node_slices[:-1].repeat_interleave(num_edges)
    degrees = degree(source, int(node_slices[-1]))
    if degrees.max() > MAX_ONE_HOT_DEGREE:
        data.x = ((degrees - degrees.mean()) / degrees.std()).unsqueeze(-1)
    else:
        data.x = one_hot(degrees.long())
