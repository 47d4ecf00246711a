from typing import Any, Final

from torch_geometric.nn import MLP, GINEConv, MessagePassing
from torch_geometric.nn.models.basic_gnn import BasicGNN


class GINE(BasicGNN):
    r"""A :class:`~torch_geometric.nn.models.GIN` that sees edge features, by the
    :class:`~torch_geometric.nn.conv.GINEConv` operator.

    Args:
        in_channels (int): The number of node features.
        hidden_channels (int): The number of hidden channels.
        num_layers (int): The number of layers.
        edge_dim (int): The number of edge features.
        **kwargs (optional): Other arguments of
            :class:`~torch_geometric.nn.models.GIN`.

    Example:
        >>> import torch
        >>> gnn = GINE(16, 32, num_layers=3, edge_dim=8, jk="cat")
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> gnn(torch.randn(2, 16), edge_index, edge_attr=torch.randn(2, 8)).shape
        torch.Size([2, 32])
    """

    supports_edge_weight: Final[bool] = False
    supports_edge_attr: Final[bool] = True
    supports_norm_batch: bool

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        edge_dim: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            in_channels, hidden_channels, num_layers, edge_dim=edge_dim, **kwargs
        )

    def init_conv(
        self, in_channels: int, out_channels: int, edge_dim: int, **kwargs: Any
    ) -> MessagePassing:
        mlp = MLP(
            [in_channels, out_channels, out_channels],
            act=self.act,
            act_first=self.act_first,
            norm=self.norm,
            norm_kwargs=self.norm_kwargs,
        )
        return GINEConv(mlp, edge_dim=edge_dim, **kwargs)
