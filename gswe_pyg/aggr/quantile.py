from collections.abc import Sequence
from numbers import Real

import torch
from torch import Tensor

from gswe_pyg._checks import one_of
from gswe_pyg.aggr.segments import SegmentAggregation, elements_first, sort_by_set
from gswe_pyg.ops import segment_quantile_at
from gswe_pyg.ops.interpolation import LEVEL_INTERPOLATIONS


class QuantileAggregation(SegmentAggregation):
    r"""The feature-wise :math:`q`-th quantile of a set: the arguments and numbers of
    PyG's :class:`~torch_geometric.nn.aggr.QuantileAggregation`, on our sort.

    It differs where PyG's has limits: elements may have a weight, sets may be given by
    :obj:`ptr`, the first set may be empty, and positions are exact in batches of any
    size, where PyG's, in single precision, are off behind several million elements. If
    two values are equally near, :obj:`"nearest"` takes the one of even rank in its set;
    PyG's choice depends on the sets before.

    Args:
        q (float or list): The quantile value(s) :math:`q` between zero and one. The
            results of several values are concatenated.
        interpolation (str, optional): What is taken where the quantile lies between two
            values: :obj:`"linear"`, :obj:`"lower"`, :obj:`"higher"`,
            :obj:`"midpoint"` or :obj:`"nearest"`. (default: :obj:`"linear"`)
        fill_value (float, optional): The value for an empty set.
            (default: :obj:`0.0`)

    Shapes:
        - **input:** elements :math:`(*, N, F)`, index :math:`(N)` or ptr
          :math:`(B + 1)`, weight :math:`(N)` *(optional)*
        - **output:** :math:`(*, B, |q| \cdot F)`

    Example:
        >>> x, batch = torch.randn(10, 64), torch.tensor([0] * 4 + [1] * 6)
        >>> aggr = QuantileAggregation([0.25, 0.5, 0.75])
        >>> aggr(x, batch).shape
        torch.Size([2, 192])
        >>> aggr(x, batch, weight=1 + torch.rand(10)).shape
        torch.Size([2, 192])
    """

    def __init__(
        self,
        q: float | Sequence[float],
        interpolation: str = "linear",
        fill_value: float = 0.0,
    ) -> None:
        super().__init__()
        levels = [float(q)] if isinstance(q, float | Real) else [float(v) for v in q]
        if not levels or not all(0 <= level <= 1 for level in levels):
            raise ValueError(
                f"'q' must be one or more numbers between 0 and 1 (got {q})"
            )
        self._q = q
        self.levels = tuple(levels)
        # Not used, but part of the state dicts of PyG's.
        self.register_buffer("q", torch.tensor(self.levels).view(-1, 1))
        self.interpolation = one_of(
            "interpolation", interpolation, LEVEL_INTERPOLATIONS
        )
        self.fill_value = fill_value

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        r"""Computes the quantiles of each set.

        Args:
            x (torch.Tensor): The elements of all sets.
            index (torch.Tensor, optional): The set that each element belongs to, in any
                order. One of :obj:`index` or :obj:`ptr` must be defined.
                (default: :obj:`None`)
            ptr (torch.Tensor, optional): The boundaries of the sets, whose elements
                then stand together. (default: :obj:`None`)
            dim_size (int, optional): The number of sets. (default: :obj:`None`)
            dim (int, optional): The dimension of the elements. (default: :obj:`-2`)
            max_num_elements (int, optional): The size of the largest set, or a bound
                for it. Nothing is padded. With :obj:`dim_size`, or :obj:`ptr`, nothing
                is then read from a GPU, nor checked. (default: :obj:`None`)
            weight (torch.Tensor, optional): How often each element counts, not
                negative: a whole number is as good as repetition. Multiply
                probabilities by the number of elements. (default: :obj:`None`)
        """
        x = elements_first(x, dim)
        x, ptr, weight, max_num_elements = sort_by_set(
            x, index, ptr, dim_size, weight, max_num_elements
        )
        between, num_channels = x.shape[1:-1], x.shape[-1]
        columns = x.flatten(start_dim=1)
        out = segment_quantile_at(
            columns, ptr, self.levels, self.interpolation, weight, max_num_elements
        )
        if self.fill_value != 0:
            is_empty = (ptr[1:] == ptr[:-1]).view(-1, 1, 1)
            out = out.masked_fill(is_empty, self.fill_value)
        # [B, * F, Q] -> [B, *, Q F]
        out = out.view(out.shape[0], *between, num_channels, len(self.levels))
        out = out.mT.flatten(start_dim=-2)
        return out.movedim(0, dim) if between else out

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(q={self._q})"


class MedianAggregation(QuantileAggregation):
    r"""The feature-wise median of a set, the lower one of two: the numbers of PyG's
    :class:`~torch_geometric.nn.aggr.MedianAggregation`, computed by our sort, with
    :obj:`ptr` and :obj:`weight`.

    Args:
        fill_value (float, optional): The value for an empty set.
            (default: :obj:`0.0`)

    Example:
        >>> x = torch.tensor([[3.0], [1.0], [2.0], [8.0], [9.0]])
        >>> median = MedianAggregation()
        >>> median(x, torch.tensor([0, 0, 0, 1, 1]))
        tensor([[2.],
                [8.]])
    """

    def __init__(self, fill_value: float = 0.0) -> None:
        super().__init__(0.5, "lower", fill_value)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"
