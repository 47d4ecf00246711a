import math

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform


@functional_transform("random_rotation")
class RandomRotation(BaseTransform):
    r"""Rotates the node positions of every graph about the origin by a uniformly
    random rotation (functional name: :obj:`random_rotation`): the augmentation of
    the GSWE paper for Set-Circles.

    In contrast to :class:`torch_geometric.transforms.RandomRotate`, a rotation in
    three or more dimensions has no fixed axis, the random numbers are those of torch
    and follow :func:`torch.manual_seed`, and a batch can be given instead of a graph:
    each of its graphs gets a rotation of its own.

    Shapes:
        - **pos:** :math:`[n, d]` with :math:`d \geq 2`

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gswe_pyg.transforms import RandomRotation
        >>> data = Data(pos=torch.tensor([[3.0, 4.0]]))
        >>> round(RandomRotation()(data).pos.norm().item(), 3)
        5.0
    """

    def forward(self, data: Data) -> Data:
        if data.pos is None or data.pos.size(-1) < 2:
            raise ValueError("'data.pos' must have the shape [n, d] with d >= 2")
        if isinstance(data, Batch):
            rotation = random_rotations(data.num_graphs, data.pos)[data.batch]
        else:
            rotation = random_rotations(1, data.pos)
        data.pos = (rotation @ data.pos.unsqueeze(-1)).squeeze(-1)
        return data


def random_rotations(number: int, like: Tensor) -> Tensor:
    r"""Uniform rotation matrices of shape :math:`[\mathrm{number}, d, d]`, where
    :math:`d` is the last size of :obj:`like`."""
    dim = like.size(-1)
    if dim == 2:
        angle = 2 * math.pi * torch.rand(number, device=like.device, dtype=like.dtype)
        cos, sin = angle.cos(), angle.sin()
        return torch.stack([cos, -sin, sin, cos], dim=-1).view(number, 2, 2)
    # The QR factors of Gaussian matrices are uniform once R's diagonal is positive;
    # turning one axis then makes the reflections among them rotations.
    q, r = torch.linalg.qr(
        torch.randn(number, dim, dim, device=like.device, dtype=like.dtype)
    )
    q = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    q[:, :, 0] *= torch.linalg.det(q).sign().unsqueeze(-1)
    return q
