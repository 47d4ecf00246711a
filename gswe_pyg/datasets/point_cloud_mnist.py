import os
import os.path as osp
from collections.abc import Callable

import numpy as np
import torch
from torch_geometric.data import Data

from gswe_pyg.datasets.raw_files import download_file, read_idx, remove_empty
from gswe_pyg.datasets.set_dataset import SetDataset


class PointCloudMNIST(SetDataset):
    r"""The handwritten digits of MNIST as sets of points in the plane: one point per
    non-zero pixel.

    Coordinates are in pixels, as the augmentation of the GSWE paper assumes (noise of
    unit variance): :math:`x` is the column and :math:`y` grows upwards from the
    bottom row, so that digits stand upright. The training part has 60,000 sets of
    149.9 points on average, the test part 10,000.

    Args:
        root (str): The folder of the data set. The original :obj:`idx` files are
            read from :obj:`root/raw`, and downloaded to it when missing.
        train (bool, optional): Whether to open the training or the test part.
            (default: :obj:`True`)
        intensity (bool, optional): Whether to give the grey value of each pixel, in
            :math:`(0, 1]`, as the feature :obj:`x`. (default: :obj:`False`)
        transform (callable, optional): A transform applied on every access.
            (default: :obj:`None`)
        pre_transform (callable, optional): A transform applied once, before the
            sets are stored. (default: :obj:`None`)
        pre_filter (callable, optional): A function that tells which sets to keep.
            (default: :obj:`None`)
        force_reload (bool, optional): Whether to process the raw files again.
            (default: :obj:`False`)

    Shapes:
        - **graph:** :obj:`pos` :math:`[n, 2]`, :obj:`y` :math:`[1]`, and :obj:`x`
          :math:`[n, 1]` with :obj:`intensity=True`

    Example:
        >>> from gswe_pyg.datasets import PointCloudMNIST
        >>> dataset = PointCloudMNIST("data/MNIST", train=False)
        >>> len(dataset), dataset[0].pos.shape[1], dataset[0].y.item()
        (10000, 2, 7)
    """

    url = "https://ossci-datasets.s3.amazonaws.com/mnist"
    checksums = {  # noqa: RUF012
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    }

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        intensity: bool = False,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        pre_filter: Callable | None = None,
        force_reload: bool = False,
    ) -> None:
        self.train = train
        self.intensity = intensity
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)
        self.load(self.processed_paths[0])

    @property
    def raw_file_names(self) -> list[str]:
        part = "train" if self.train else "t10k"
        return [f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz"]

    @property
    def processed_file_names(self) -> str:
        part = "train" if self.train else "test"
        return f"{part}_intensity.pt" if self.intensity else f"{part}.pt"

    def download(self) -> None:
        try:
            os.makedirs(self.raw_dir, exist_ok=True)
            for name in self.raw_file_names:
                path = osp.join(self.raw_dir, name)
                if not osp.exists(path):
                    download_file(f"{self.url}/{name}", path, self.checksums[name])
        except OSError as error:
            remove_empty(self.raw_dir, self.root)
            raise FileNotFoundError(
                f"MNIST could not be downloaded ({error}). Put the files "
                f"{self.raw_file_names} into '{self.raw_dir}'"
            ) from error

    def process(self) -> None:
        image_path, label_path = self.raw_paths
        images, y = read_idx(image_path, ndim=3), read_idx(label_path, ndim=1)
        if len(images) != len(y):
            raise ValueError(
                f"'{image_path}' has {len(images)} images, but '{label_path}' has "
                f"{len(y)} labels"
            )
        if y.size == 0 or y.max() > 9:
            raise ValueError(f"'{label_path}' must hold digits from 0 to 9")

        num_images, height, width = images.shape
        row, column = np.divmod(np.arange(height * width), width)
        grid = np.stack([column, height - 1 - row], axis=1).astype(np.float32)
        where = np.flatnonzero(images)
        sizes = np.count_nonzero(images, axis=(1, 2))
        data = Data(
            pos=torch.from_numpy(grid[where % (height * width)]),
            y=torch.from_numpy(y.astype(np.int64)),
        )
        slices = {
            "pos": torch.from_numpy(np.concatenate([[0], sizes.cumsum()])),
            "y": torch.arange(num_images + 1),
        }
        if self.intensity:
            values = images.reshape(-1)[where].astype(np.float32) / 255
            data.x = torch.from_numpy(values).unsqueeze(-1)
            slices["x"] = slices["pos"]
        self._write(self.processed_paths[0], *self._prepare(data, slices))
