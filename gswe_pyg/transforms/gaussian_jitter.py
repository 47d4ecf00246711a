import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gswe_pyg._checks import not_negative


@functional_transform("gaussian_jitter")
class GaussianJitter(BaseTransform):
    r"""Adds independent Gaussian noise to the node positions (functional name:
    :obj:`gaussian_jitter`): with unit variance, the augmentation of the GSWE paper
    for Point Cloud MNIST, whose positions are in pixels.

    In contrast, the noise of :class:`torch_geometric.transforms.RandomJitter` is
    uniform. A batch can be given instead of a graph.

    Args:
        std (float, optional): The standard deviation. (default: :obj:`1.0`)

    Shapes:
        - **pos:** :math:`[n, d]`

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gswe_pyg.transforms import GaussianJitter
        >>> data = Data(pos=torch.zeros(3, 2))
        >>> GaussianJitter(std=0.5)(data).pos.shape
        torch.Size([3, 2])
    """

    def __init__(self, std: float = 1.0) -> None:
        self.std = not_negative("std", std)

    def forward(self, data: Data) -> Data:
        if data.pos is None:
            raise ValueError("'data.pos' must have the shape [n, d] (got None)")
        data.pos = data.pos + self.std * torch.randn_like(data.pos)
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(std={self.std})"
