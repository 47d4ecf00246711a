import glob
import os
import os.path as osp
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from gswe_pyg.datasets.processed_file import check_readable
from gswe_pyg.datasets.raw_files import remove_empty

if TYPE_CHECKING:
    from ogb.graphproppred import PygGraphPropPredDataset

# What ogb 1.3.6 pickles whole, and torch >= 2.6 refuses unless told.
OGB_CLASSES = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]


def load_ogb(
    root: str | os.PathLike[str], name: str, transform: Callable | None = None
) -> "tuple[PygGraphPropPredDataset, dict[str, Tensor]]":
    r"""Opens a graph property data set through OGB, with its standard split.

    ogb 1.3.6 stores whole :class:`~torch_geometric.data.Data` objects, which torch
    2.6 and later refuse to load. Here the few classes they consist of are allowed
    while OGB reads its file, and nothing else is.

    Args:
        root (str): The folder of all OGB data sets. Raw files are read from
            :obj:`root/ogbg_molhiv/raw` and so on, and downloaded when missing.
        name (str): The name of the data set, such as :obj:`"ogbg-molhiv"`.
        transform (callable, optional): A transform applied on every access.
            (default: :obj:`None`)

    Returns:
        The data set, and the indices of its :obj:`"train"`, :obj:`"valid"` and
        :obj:`"test"` parts.
    """
    try:
        from ogb.graphproppred import PygGraphPropPredDataset
    except ImportError as error:
        raise ImportError(
            f"{name!r} is read by the ogb package: run 'pip install ogb'"
        ) from error

    root = os.fspath(root)
    folder = osp.join(root, name.replace("-", "_"))
    if osp.isdir(f"{folder}_pyg"):  # the name that older versions of ogb gave
        folder = f"{folder}_pyg"
    has_raw = osp.isdir(osp.join(folder, "raw"))
    if osp.isdir(folder) and not glob.glob(osp.join(glob.escape(folder), "RELEASE_v*")):
        raise FileNotFoundError(
            f"'{folder}' has no file RELEASE_v*.txt, so ogb would ask on the terminal "
            f"whether to delete it: complete it from OGB's archive, or remove it"
        )
    # On leaving, torch would also forget those that PyG had allowed before.
    allowed = set(torch.serialization.get_safe_globals())
    with torch.serialization.safe_globals(
        [item for item in OGB_CLASSES if item not in allowed]
    ):
        check_readable(osp.join(folder, "processed"))
        try:
            dataset = PygGraphPropPredDataset(name, root, transform)
        except OSError as error:
            if has_raw:
                raise
            remove_empty(osp.join(folder, "raw"), folder)
            raise FileNotFoundError(
                f"{name!r} could not be downloaded ({error}). Put the content of its "
                f"archive (raw/, split/, mapping/, RELEASE_v1.txt) into '{folder}'"
            ) from error
        return dataset, dataset.get_idx_split()
