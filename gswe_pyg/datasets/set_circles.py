import math
import os
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch_geometric.data import Data

from gswe_pyg._checks import not_negative, positive_int
from gswe_pyg.datasets.set_dataset import SetDataset


class SetCircles(SetDataset):
    r"""The Set-Circles data of the GSWE paper: every set lies on a random arc of a
    circle around the origin, with additive noise, and its class is the radius.

    The elements of a set of class :math:`c` are

    .. math::
        r_c \, (\cos \varphi_j, \sin \varphi_j) + \varepsilon_j, \quad
        \varphi_j \sim \mathcal{U}[\varphi, \varphi + \alpha], \quad
        \varepsilon_j \sim \mathcal{N}(0, \sigma^2 I), \quad
        j = 1, \ldots, n

    with :math:`\varphi \sim \mathcal{U}[0, 2\pi)` and the angle of the arc
    :math:`\alpha` drawn once per set. The cardinality :math:`n` is uniform on
    :math:`\{n_{\min}, \ldots, n_{\max}\}`; it is drawn by strata, so that the mean
    size is the same for every seed. Classes are equally large.

    The paper gives the number of sets (400) and their mean size (14.6), not the
    radii, arcs and noise: those defaults are ours. Sets are made in memory in about
    a millisecond, so there is nothing to download, to process or to reload.

    Args:
        root (str, optional): Not used: accepted so that all data sets of this
            package are opened alike. (default: :obj:`None`)
        train (bool, optional): Whether to make the training or the test part, which
            are independent draws. (default: :obj:`True`)
        num_sets (int, optional): The number of sets. (default: :obj:`400`)
        radii (sequence of float, optional): The radius of every class.
            (default: :obj:`(1.0, 2.0)`)
        min_size (int, optional): The smallest cardinality. (default: :obj:`5`)
        max_size (int, optional): The largest cardinality. (default: :obj:`24`)
        arc (tuple of float, optional): The range of the angle :math:`\alpha` in
            radians. (default: :obj:`(math.pi / 4, 2 * math.pi)`)
        noise (float, optional): The standard deviation :math:`\sigma`.
            (default: :obj:`0.1`)
        seed (int, optional): The seed. Neither reads nor changes a global random
            state. (default: :obj:`0`)
        transform (callable, optional): A transform applied on every access.
            (default: :obj:`None`)
        pre_transform (callable, optional): A transform applied once.
            (default: :obj:`None`)
        pre_filter (callable, optional): A function that tells which sets to keep.
            (default: :obj:`None`)

    Shapes:
        - **graph:** :obj:`pos` :math:`[n, 2]`, :obj:`y` :math:`[1]`

    Example:
        >>> from gswe_pyg.datasets import SetCircles
        >>> dataset = SetCircles()
        >>> dataset
        SetCircles(400)
        >>> dataset[0].pos.shape[1], dataset.num_features, dataset.num_classes
        (2, 2, 2)
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        train: bool = True,
        num_sets: int = 400,
        radii: Sequence[float] = (1.0, 2.0),
        min_size: int = 5,
        max_size: int = 24,
        arc: tuple[float, float] = (math.pi / 4, 2 * math.pi),
        noise: float = 0.1,
        seed: int = 0,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        pre_filter: Callable | None = None,
    ) -> None:
        num_sets = positive_int("num_sets", num_sets)
        if len(radii) == 0 or min(radii) < 0:
            raise ValueError(
                f"'radii' must hold one non-negative number per class (got {radii})"
            )
        if not 0 <= min_size <= max_size:
            raise ValueError(
                f"'min_size' and 'max_size' must satisfy 0 <= min_size <= max_size "
                f"(got {min_size} and {max_size})"
            )
        if len(arc) != 2 or not 0 <= arc[0] <= arc[1]:
            raise ValueError(f"'arc' must be a range (low, high) of angles (got {arc})")
        not_negative("noise", noise)
        not_negative("seed", seed)

        super().__init__(root, transform, pre_transform, pre_filter)
        self.train = train

        # The part is in the seed: the test sets do not follow from the number of
        # training sets.
        random = np.random.Generator(np.random.PCG64([seed, int(train)]))
        y = random.permutation(np.arange(num_sets) % len(radii))
        strata = (random.permutation(num_sets) + random.random(num_sets)) / num_sets
        size = min_size + (strata * (max_size - min_size + 1)).astype(np.int64)
        start = 2 * math.pi * random.random(num_sets)
        angle = arc[0] + (arc[1] - arc[0]) * random.random(num_sets)

        owner = np.repeat(np.arange(num_sets), size)
        phi = start[owner] + angle[owner] * random.random(owner.size)
        pos = np.stack([np.cos(phi), np.sin(phi)], axis=1)
        pos *= np.asarray(radii, dtype=float)[y[owner], None]
        pos += noise * random.standard_normal(pos.shape)

        data = Data(pos=torch.from_numpy(pos.astype(np.float32)), y=torch.from_numpy(y))
        slices = {
            "pos": torch.from_numpy(np.concatenate([[0], size.cumsum()])),
            "y": torch.arange(num_sets + 1),
        }
        self.data, self.slices = self._prepare(data, slices)
