from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MLP
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.inits import reset
from torch_geometric.nn.models.basic_gnn import BasicGNN
from torch_geometric.nn.resolver import aggregation_resolver

from gswe_pyg.models.readout_channels import readout_channels


class GNNWithReadout(torch.nn.Module):
    r"""A graph neural network on nodes, a readout over each graph, and a perceptron
    with one hidden layer on what comes out, for graph classification and regression.

    Args:
        gnn (BasicGNN): The network on the nodes: PyG's
            :class:`~torch_geometric.nn.models.GCN`,
            :class:`~torch_geometric.nn.models.GIN`,
            :class:`~torch_geometric.nn.models.GraphSAGE`,
            :class:`~torch_geometric.nn.models.GAT`,
            :class:`~torch_geometric.nn.models.PNA`, or
            :class:`~gswe_pyg.models.GINE`, with jumping knowledge if they are built
            with :obj:`jk`.
        readout (Aggregation or str): Any aggregation, or the name of one that needs no
            arguments. The width of its output is found out.
        out_channels (int): The number of classes or targets.
        node_encoder (torch.nn.Module, optional): What turns node features into inputs
            of the network, for example :class:`~gswe_pyg.models.CategoryEncoder`.
            (default: :obj:`None`)
        edge_encoder (torch.nn.Module, optional): The same for edges.
            (default: :obj:`None`)
        dropout (float, optional): The dropout of the hidden layer behind the readout.
            (default: :obj:`0.0`)

    Shapes:
        - **input:** node features :math:`(N, F)`, edge indices :math:`(2, E)`, batch
          vector :math:`(N)`, edge features :math:`(E, D)` *(optional)*
        - **output:** graphs :math:`(B, \mathrm{out\_channels})`

    Example:
        >>> from gswe_pyg import GSWEAggregation
        >>> from torch_geometric.nn import GIN
        >>> readout = GSWEAggregation(32, num_slices=32, num_points=8)
        >>> model = GNNWithReadout(GIN(7, 32, num_layers=3), readout, out_channels=2)
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> model(torch.randn(3, 7), edge_index, torch.tensor([0, 0, 1])).shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        gnn: BasicGNN,
        readout: Aggregation | str,
        out_channels: int,
        node_encoder: torch.nn.Module | None = None,
        edge_encoder: torch.nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if edge_encoder is not None and not gnn.supports_edge_attr:
            raise ValueError(
                f"'edge_encoder' needs a network that sees edge features, such as "
                f"GINE, GAT or PNA (got {type(gnn).__name__})"
            )
        self.node_encoder = node_encoder
        self.edge_encoder = edge_encoder
        self.gnn = gnn
        self.readout = aggregation_resolver(readout)
        width = readout_channels(self.readout, gnn.out_channels)
        self.head = MLP(
            [width, gnn.out_channels, out_channels], dropout=[dropout, 0.0], norm=None
        )

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self.children():
            reset(module)

    def embed(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""What the readout makes of each graph. The arguments are those of
        :meth:`forward`.
        """
        if x is None or x.size(-1) == 0:
            raise ValueError(
                "The graphs have no node features 'x': open TU data sets by "
                "'gswe_pyg.datasets.load_tu', which adds node degrees, or apply "
                "'torch_geometric.transforms.Constant'"
            )
        if self.node_encoder is not None:
            x = self.node_encoder(x)
        elif not x.is_floating_point():
            raise ValueError(
                f"'x' must be a floating point tensor (got {x.dtype}): pass a "
                f"'node_encoder' if it holds categories, or convert it by 'x.float()'"
            )
        options: dict[str, Any] = {"batch": batch, "batch_size": batch_size}
        if self.gnn.supports_edge_attr:
            if self.edge_encoder is not None:
                if edge_attr is None:
                    raise ValueError(
                        "'edge_attr' is missing, but 'edge_encoder' is set"
                    )
                edge_attr = self.edge_encoder(edge_attr)
            options["edge_attr"] = edge_attr
        if self.gnn.supports_edge_weight:
            options["edge_weight"] = edge_weight
        x = self.gnn(x, edge_index, **options)
        return self.readout(x, batch, dim_size=batch_size)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Predicts for each graph.

        Args:
            x (torch.Tensor): The node features, or categories for the encoder.
            edge_index (torch.Tensor): The edge indices.
            batch (torch.Tensor, optional): The graph of each node; by default all
                nodes are of one graph. (default: :obj:`None`)
            edge_attr (torch.Tensor, optional): The edge features; not looked at by
                networks without support for them. (default: :obj:`None`)
            edge_weight (torch.Tensor, optional): The edge weights; not looked at by
                networks without support for them. (default: :obj:`None`)
            batch_size (int, optional): The number of graphs, which cannot be told from
                :obj:`batch` if the last graphs have no nodes. (default: :obj:`None`)
        """
        out = self.embed(x, edge_index, batch, edge_attr, edge_weight, batch_size)
        return self.head(out)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.gnn}, {self.readout})"
