from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.inits import reset

from gswe_pyg._checks import positive_int
from gswe_pyg.aggr.size_groups import SizeGroups, pad


class SAB(torch.nn.Module):
    r"""The set attention block of the `"Set Transformer"
    <https://arxiv.org/abs/1810.00825>`_ paper, on scatter-indexed sets.

    Every element attends to all elements of its own set:

    .. math::
        \mathrm{SAB}(X) = H + \mathrm{ReLU}(H W_O), \quad
        H = X W_Q + \mathrm{Attention}(X W_Q, X W_K, X W_V)

    There is no layer normalization. The linear maps see the elements as they
    lie; only the attention works on dense blocks, of sets of nearly equal size
    once a batch is large, and its padding is masked. A set's output depends on
    that set alone.

    Args:
        in_channels (int): Size of each input element.
        out_channels (int): Size of each output element.
        heads (int, optional): Number of attention heads; divides
            :obj:`out_channels`. (default: :obj:`1`)

    Shapes:
        - **input:** elements :math:`(N, F_{in})`, their sets as :obj:`index`
          :math:`(N)` in any order or :obj:`ptr` :math:`(B + 1)`; one set without
        - **output:** elements :math:`(N, F_{out})`, in the order of the input

    .. code-block:: python

        >>> sab = SAB(2, 16, heads=4)
        >>> index = torch.tensor([0, 0, 0, 1, 1])
        >>> sab(torch.randn(5, 2), index).shape
        torch.Size([5, 16])
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1) -> None:
        super().__init__()
        self.in_channels = positive_int("in_channels", in_channels)
        self.out_channels = positive_int("out_channels", out_channels)
        self.heads = positive_int("heads", heads)
        if out_channels % heads != 0:
            raise ValueError(
                f"'heads' must divide 'out_channels' "
                f"(got heads={heads} and out_channels={out_channels})"
            )
        # Queries, keys and values in one product.
        self.lin_qkv = torch.nn.Linear(in_channels, 3 * out_channels)
        self.lin_out = torch.nn.Linear(out_channels, out_channels)

    def reset_parameters(self) -> None:
        self.lin_qkv.reset_parameters()
        self.lin_out.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor:
        groups = SizeGroups.build(x.size(0), index, ptr, dim_size, x.device)
        return groups.leave(self.forward_grouped(groups.enter(x), groups))

    def forward_grouped(self, x: Tensor, groups: SizeGroups) -> Tensor:
        r"""The same on rows that are already in the order of :obj:`groups`."""
        qkv = self.lin_qkv(x)
        hidden = qkv[:, : self.out_channels] + self._attend(qkv, groups)
        return hidden + self.lin_out(hidden).relu()

    def _attend(self, qkv: Tensor, groups: SizeGroups) -> Tensor:
        outs = []
        for block, rows in groups.split(qkv):
            q, k, v = (
                pad(rows, block)
                .unflatten(-1, (3, self.heads, -1))
                .permute(2, 0, 3, 1, 4)
            )
            out = F.scaled_dot_product_attention(q, k, v, block.attention_mask)
            out = out.transpose(1, 2).reshape(-1, self.out_channels)
            outs.append(out if block.slots is None else out[block.slots])
        return torch.cat(outs) if outs else qkv[:, : self.out_channels]

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"heads={self.heads})"
        )


class SharedSAB(torch.nn.Module):
    r"""The backbone of the unsupervised experiments (paper, appendix A.1): a
    linear map in, one :class:`SAB` applied several times, a linear map out.

    Args:
        in_channels (int): Size of each input element.
        hidden_channels (int): Size of each element inside.
        out_channels (int): Size of each output element.
        heads (int, optional): Number of attention heads. (default: :obj:`4`)
        num_layers (int, optional): How many times the one block is applied.
            (default: :obj:`3`)

    Shapes:
        - **input:** elements :math:`(N, F_{in})` and their sets, as in
          :class:`SAB`
        - **output:** elements :math:`(N, F_{out})`

    .. code-block:: python

        >>> backbone = SharedSAB(2, 256, 16, heads=4, num_layers=3)
        >>> ptr = torch.tensor([0, 6, 10])
        >>> backbone(torch.randn(10, 2), ptr=ptr).shape
        torch.Size([10, 16])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        heads: int = 4,
        num_layers: int = 3,
    ) -> None:
        super().__init__()
        self.in_channels = positive_int("in_channels", in_channels)
        self.hidden_channels = positive_int("hidden_channels", hidden_channels)
        self.out_channels = positive_int("out_channels", out_channels)
        self.num_layers = positive_int("num_layers", num_layers)
        self.lin_in = torch.nn.Linear(in_channels, hidden_channels)
        self.sab = SAB(hidden_channels, hidden_channels, heads)
        self.lin_out = torch.nn.Linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        self.lin_in.reset_parameters()
        self.sab.reset_parameters()
        self.lin_out.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor:
        groups = SizeGroups.build(x.size(0), index, ptr, dim_size, x.device)
        x = self.lin_in(groups.enter(x))
        for _ in range(self.num_layers):
            x = self.sab.forward_grouped(x, groups)
        return groups.leave(self.lin_out(x))

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.hidden_channels}, "
            f"{self.out_channels}, heads={self.sab.heads}, "
            f"num_layers={self.num_layers})"
        )


class StackedSAB(torch.nn.Module):
    r"""The backbone of the supervised experiments (paper, appendix A.2): one
    :class:`SAB` after the other, each with parameters of its own.

    Args:
        in_channels (int): Size of each input element.
        channels (Sequence[int], optional): Output sizes of the blocks.
            (default: :obj:`(128, 128, 16)`)
        heads (Sequence[int], optional): Attention heads of the blocks.
            (default: :obj:`(4, 4, 1)`)

    Shapes:
        - **input:** elements :math:`(N, F_{in})` and their sets, as in
          :class:`SAB`
        - **output:** elements :math:`(N, F_{out})` with the last of
          :obj:`channels`

    .. code-block:: python

        >>> backbone = StackedSAB(300)
        >>> index = torch.tensor([1, 0, 1])
        >>> backbone(torch.randn(3, 300), index).shape
        torch.Size([3, 16])
    """

    def __init__(
        self,
        in_channels: int,
        channels: Sequence[int] = (128, 128, 16),
        heads: Sequence[int] = (4, 4, 1),
    ) -> None:
        super().__init__()
        if len(channels) != len(heads) or len(channels) == 0:
            raise ValueError(
                f"'heads' must have one entry per entry of 'channels', at least one "
                f"(got channels={list(channels)} and heads={list(heads)})"
            )
        self.in_channels = in_channels
        self.channels = list(channels)
        self.heads = list(heads)
        self.out_channels = self.channels[-1]
        fan_ins = [in_channels, *channels[:-1]]
        self.sabs = torch.nn.ModuleList(
            SAB(fan_in, fan_out, num)
            for fan_in, fan_out, num in zip(fan_ins, channels, heads, strict=True)
        )

    def reset_parameters(self) -> None:
        reset(self.sabs)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor:
        groups = SizeGroups.build(x.size(0), index, ptr, dim_size, x.device)
        x = groups.enter(x)
        for sab in self.sabs:
            assert isinstance(sab, SAB)
            x = sab.forward_grouped(x, groups)
        return groups.leave(x)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.channels}, "
            f"heads={self.heads})"
        )
