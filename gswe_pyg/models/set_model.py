import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.inits import reset


class SetModel(torch.nn.Module):
    r"""A backbone on the elements of a set, then a readout over the set.

    Args:
        backbone (torch.nn.Module): A permutation-equivariant module, called as
            :obj:`backbone(x, index, ptr, dim_size)`, for example
            :class:`~gswe_pyg.models.MLP` or :class:`~gswe_pyg.models.SharedSAB`.
        readout (Aggregation): Any PyG aggregation.

    Shapes:
        - **input:** elements :math:`(N, F_{in})`, their sets as :obj:`index`
          :math:`(N)` or :obj:`ptr` :math:`(B + 1)`
        - **output:** sets :math:`(B, D)`, as wide as the readout makes them

    .. code-block:: python

        >>> from gswe_pyg.models import MLP, PMA
        >>> model = SetModel(MLP(2, [64, 64], 1), PMA(1, num_seeds=4))
        >>> index = torch.tensor([0, 0, 1])
        >>> model(torch.randn(3, 2), index).shape
        torch.Size([2, 4])
    """

    def __init__(self, backbone: torch.nn.Module, readout: Aggregation) -> None:
        super().__init__()
        self.backbone = backbone
        self.readout = readout

    def reset_parameters(self) -> None:
        reset(self.backbone)
        reset(self.readout)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor:
        x = self.backbone(x, index, ptr, dim_size)
        return self.readout(x, index, ptr=ptr, dim_size=dim_size)
