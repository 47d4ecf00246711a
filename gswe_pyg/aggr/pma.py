import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from gswe_pyg._checks import positive_int
from gswe_pyg.aggr.size_groups import SizeGroups, pad


class PMA(Aggregation):
    r"""Pooling by multi-head attention, the readout of the `"Set Transformer"
    <https://arxiv.org/abs/1810.00825>`_ paper.

    Learned seeds :math:`S` attend to the elements :math:`X` of a set:

    .. math::
        \mathrm{PMA}(X) = H + \mathrm{ReLU}(H W_O), \quad
        H = S W_Q + \mathrm{Attention}(S W_Q, X W_K, X W_V)

    There is no layer normalization: it would erase elements with a single
    channel. Sets of nearly equal size are attended to together, as in
    :class:`~gswe_pyg.models.SAB`. An empty set is mapped to zeros.

    Args:
        in_channels (int): Size of each element, and of the output per seed.
        num_seeds (int, optional): Number of seeds, the analogue of GSWE's
            :obj:`num_points`. (default: :obj:`1`)
        heads (int, optional): Number of attention heads, the analogue of GSWE's
            :obj:`num_references`; divides :obj:`in_channels`.
            (default: :obj:`1`)

    Shapes:
        - **input:** elements :math:`(N, F)`, their sets as :obj:`index`
          :math:`(N)` in any order or :obj:`ptr` :math:`(B + 1)`
        - **output:** sets :math:`(B, S \cdot F)`

    .. code-block:: python

        >>> readout = PMA(16, num_seeds=4, heads=2)
        >>> index = torch.tensor([0, 0, 1])
        >>> readout(torch.randn(3, 16), index).shape
        torch.Size([2, 64])
    """

    def __init__(self, in_channels: int, num_seeds: int = 1, heads: int = 1) -> None:
        super().__init__()
        self.in_channels = positive_int("in_channels", in_channels)
        self.num_seeds = positive_int("num_seeds", num_seeds)
        self.heads = positive_int("heads", heads)
        if in_channels % heads != 0:
            raise ValueError(
                f"'heads' must divide 'in_channels' "
                f"(got heads={heads} and in_channels={in_channels})"
            )
        self.out_channels = self.num_seeds * self.in_channels
        self.seed = torch.nn.Parameter(torch.empty(num_seeds, in_channels))
        self.lin_q = torch.nn.Linear(in_channels, in_channels)
        self.lin_kv = torch.nn.Linear(in_channels, 2 * in_channels)
        self.lin_out = torch.nn.Linear(in_channels, in_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.xavier_uniform_(self.seed)
        self.lin_q.reset_parameters()
        self.lin_kv.reset_parameters()
        self.lin_out.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        self.assert_two_dimensional_input(x, dim)
        groups = SizeGroups.build(x.size(0), index, ptr, dim_size, x.device)
        query = self.lin_q(self.seed)
        attended = self._attend(query, self.lin_kv(groups.enter(x)), groups)
        hidden = query + attended.unflatten(-1, (self.num_seeds, -1))
        pooled = (hidden + self.lin_out(hidden).relu()).flatten(1)
        out = pooled.new_zeros(groups.num_sets, self.out_channels)
        return out.index_copy(0, groups.sets, pooled)

    def _attend(self, query: Tensor, kv: Tensor, groups: SizeGroups) -> Tensor:
        heads = (self.heads, self.in_channels // self.heads)
        query = query.unflatten(-1, heads).transpose(0, 1)
        # No rows, yet a part of the graph: parameters get a gradient even when
        # all sets are empty, which data-parallel training relies on.
        outs = [kv[:0, :1].expand(-1, self.out_channels)]
        for block, rows in groups.split(kv):
            k, v = pad(rows, block).unflatten(-1, (2, *heads)).permute(2, 0, 3, 1, 4)
            q = query.expand(block.num_sets, -1, -1, -1)
            out = F.scaled_dot_product_attention(q, k, v, block.attention_mask)
            outs.append(out.transpose(1, 2).flatten(1))
        return torch.cat(outs)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, "
            f"num_seeds={self.num_seeds}, heads={self.heads})"
        )
