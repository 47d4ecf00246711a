import os
import os.path as osp
import zipfile
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import ModelNet
from torch_geometric.transforms import SamplePoints

from gswe_pyg.datasets.processed_file import check_readable
from gswe_pyg.datasets.raw_files import read_npz, remove_empty
from gswe_pyg.datasets.set_dataset import SetDataset

NUM_POINTS = 1024
INT16_MAX = 32767


class ModelNet10Points(SetDataset):
    r"""The objects of ModelNet10 as sets of 1,024 points of their surfaces, centred
    and scaled to the unit sphere: 3,991 training and 908 test sets of 10 classes.

    Points are read from :obj:`modelnet10_1024_unit_i16_{train,test}.npz`. Where that
    file is missing, it is made from the meshes of
    :class:`torch_geometric.datasets.ModelNet` (downloaded by PyG if needed) with
    :class:`torch_geometric.transforms.SamplePoints`, under a fixed seed.

    Args:
        root (str): The folder of the data set; the :obj:`.npz` file is looked for
            in :obj:`root/raw` and in :obj:`root`.
        train (bool, optional): Whether to open the training or the test part.
            (default: :obj:`True`)
        transform (callable, optional): A transform applied on every access.
            (default: :obj:`None`)
        pre_transform (callable, optional): A transform applied once, before the
            sets are stored. (default: :obj:`None`)
        pre_filter (callable, optional): A function that tells which sets to keep.
            (default: :obj:`None`)
        force_reload (bool, optional): Whether to process the raw files again.
            (default: :obj:`False`)

    Shapes:
        - **graph:** :obj:`pos` :math:`[1024, 3]`, :obj:`y` :math:`[1]`

    Example:
        >>> from gswe_pyg.datasets import ModelNet10Points
        >>> dataset = ModelNet10Points("data/ModelNet10", train=False)
        >>> len(dataset), dataset[0].pos.shape
        (908, torch.Size([1024, 3]))
    """

    classes = (
        "bathtub",
        "bed",
        "chair",
        "desk",
        "dresser",
        "monitor",
        "night_stand",
        "sofa",
        "table",
        "toilet",
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        pre_filter: Callable | None = None,
        force_reload: bool = False,
    ) -> None:
        self.train = train
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)
        self.load(self.processed_paths[0])

    @property
    def raw_file_names(self) -> list[str]:
        part = "train" if self.train else "test"
        return [f"modelnet10_{NUM_POINTS}_unit_i16_{part}.npz"]

    @property
    def processed_file_names(self) -> str:
        # PyG's ModelNet keeps `training.pt` and `test.pt` in the same folder.
        return f"points_{'train' if self.train else 'test'}.pt"

    def download(self) -> None:
        mesh_root = self._mesh_root()
        check_readable(osp.join(mesh_root, "processed"))
        try:
            meshes = ModelNet(mesh_root, "10", self.train)
        except (OSError, zipfile.BadZipFile) as error:
            with suppress(FileNotFoundError):
                # PyG would take an incomplete archive for a complete one.
                os.unlink(osp.join(mesh_root, "ModelNet10.zip"))
            remove_empty(osp.join(mesh_root, "raw"), mesh_root, self.root)
            raise FileNotFoundError(
                f"ModelNet10 could not be downloaded ({error}). Put the file "
                f"{self.raw_file_names[0]!r} or the class folders of the original "
                f"archive into '{self.raw_dir}'"
            ) from error
        os.makedirs(self.raw_dir, exist_ok=True)
        temporary = f"{self.raw_paths[0]}.{os.getpid()}.tmp.npz"
        try:
            np.savez_compressed(
                temporary,
                pos=sample_unit_points(meshes),
                y=np.array([int(mesh.y) for mesh in meshes]),
                classes=np.array(self.classes),
            )
            os.replace(temporary, self.raw_paths[0])
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)

    def _mesh_root(self) -> str:
        # PyG empties the raw folder of the root that it downloads to, so it gets
        # one of its own unless the meshes are in ours already.
        meshes = (osp.join(self.root, "raw", name) for name in self.classes)
        if all(osp.isdir(folder) for folder in meshes):
            return self.root
        return osp.join(self.root, "meshes")

    def process(self) -> None:
        path = self.raw_paths[0]
        raw = read_npz(path, ("pos", "y", "classes"))
        pos, y = raw["pos"], raw["y"]
        if pos.dtype != np.int16 or pos.ndim != 3 or pos.shape[2] != 3:
            raise ValueError(
                f"'pos' in '{path}' must be int16 of shape [objects, points, 3] (got "
                f"{pos.dtype} of shape {list(pos.shape)})"
            )
        if y.shape != pos.shape[:1]:
            raise ValueError(
                f"'{path}' has {len(pos)} objects, but labels of shape {list(y.shape)}"
            )
        if tuple(raw["classes"]) != self.classes:
            raise ValueError(
                f"'classes' in '{path}' must be {self.classes} (got "
                f"{tuple(raw['classes'])})"
            )
        if y.size == 0 or y.min() < 0 or y.max() >= len(self.classes):
            raise ValueError(f"'y' in '{path}' must hold numbers from 0 to 9")

        num_objects, num_points, _ = pos.shape
        data = Data(
            pos=torch.from_numpy(pos.astype(np.float32)).view(-1, 3) / INT16_MAX,
            y=torch.from_numpy(y.astype(np.int64)),
        )
        slices = {
            "pos": torch.arange(num_objects + 1) * num_points,
            "y": torch.arange(num_objects + 1),
        }
        self._write(self.processed_paths[0], *self._prepare(data, slices))


def sample_unit_points(meshes: ModelNet) -> np.ndarray:
    """Points of the meshes, centred and scaled to the unit sphere, in 16 bits."""
    sample = SamplePoints(NUM_POINTS)
    points = np.empty((len(meshes), NUM_POINTS, 3), np.int16)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for i, mesh in enumerate(meshes):
            pos = sample(mesh).pos
            pos = pos - pos.mean(dim=0)
            pos = pos / pos.norm(dim=1).max().clamp(min=torch.finfo(pos.dtype).tiny)
            points[i] = (pos * INT16_MAX).round().numpy()
    return points
