import contextlib

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.nn import Linear
from torch_geometric.nn.inits import reset
from torch_geometric.utils import scatter

from gswe_pyg._checks import norm_order, one_of, positive_int
from gswe_pyg.aggr.describe import HeadDescription, describe_heads
from gswe_pyg.aggr.l_moments import l_moment_weights
from gswe_pyg.aggr.segments import (
    SegmentAggregation,
    elements_first,
    has_values,
    is_on_host,
    sort_by_set,
)
from gswe_pyg.distance import power_mean
from gswe_pyg.ops import segment_quantile
from gswe_pyg.ops.interpolation import INTERPOLATIONS
from gswe_pyg.ops.segment_quantile import heads_in_rows
from gswe_pyg.slicers import make_slicer

REFERENCES = ("input", "slice")

#: Deviation of the initial points. The reference is a constant part of all embeddings,
#: on which, if it were large, losses by inner products would look instead of the sets.
REFERENCE_STD = 0.1


class GSWEAggregation(SegmentAggregation):
    r"""The Generalized Sliced-Wasserstein Embedding from the `"Set Representation
    Learning with Generalized Sliced-Wasserstein Embeddings"
    <https://arxiv.org/abs/2103.03892>`_ paper

    .. math::
        \phi(\mathcal{X})_{k, l, m} = F^{-1}_{g_l(\mathcal{X})} \left( \tfrac{m +
        1/2}{M} \right) - g_l(\mathcal{Z}_k)_{(m)},

    where :math:`\mathcal{X}` is the set of nodes of a graph, :math:`g_1, \dots, g_L`
    are slices, :math:`F^{-1}` denotes the quantile function of a slice of the nodes,
    and :math:`g_l(\mathcal{Z}_k)_{(m)}` the :math:`m`-th smallest value of the same
    slice of the reference set :math:`\mathcal{Z}_k` of :math:`M` learned points. There
    are two uses:

    * **A readout** in place of mean pooling, with :obj:`heads`: :math:`H` learned
      weight vectors per slice combine its :math:`M` quantiles :math:`Q`

      .. math::
          \phi(\mathcal{X})_{h, l} = \sum_{m} w_{h, l, m} \, Q_{l, m}(\mathcal{X}).

      They start as L-moments: the first head is the mean, the next ones are spread,
      skewness and tails. With :obj:`heads=1` the readout starts as
      :meth:`~torch_geometric.nn.pool.global_mean_pool`, has the same width, and learns
      from there, for example towards the median or the spread.
    * **An embedding**, without :obj:`heads`: the Euclidean distance of two vectors is,
      up to scale, the generalised sliced-Wasserstein distance of the graphs' nodes,
      exactly for some sizes and approximately for others (:meth:`distance`).

    An empty graph is mapped to zero, as the reference itself is.

    Args:
        in_channels (int): The number of features of a node.
        num_slices (int, optional): The number of slices :math:`L`. By default as many
            as :obj:`in_channels`. (default: :obj:`None`)
        num_points (int, optional): The number of points :math:`M` at which the
            quantile function of a slice is read. (default: :obj:`8`)
        num_references (int, optional): The number of reference sets :math:`K`, whose
            embeddings are concatenated. All are subtracted from the same quantiles, so
            these embeddings are shifted copies of each other. (default: :obj:`1`)
        slicer (str or torch.nn.Module, optional): The slices: :obj:`"linear"`
            (directions of unit length), :obj:`"mlp"` (a perceptron, where slices should
            bend freely), :obj:`"polynomial"` (of degree three, for few features),
            :obj:`"identity"` (the features themselves, behind a network that ends in
            slices), or any module from :math:`(N, \mathrm{in\_channels})` to
            :math:`(N, L)`. By default :obj:`"identity"` with :obj:`heads`, unless
            :obj:`num_slices` differs from :obj:`in_channels`, and :obj:`"linear"`
            otherwise. (default: :obj:`None`)
        interpolation (str, optional): How a graph of another size than :math:`M` is
            read at the ranks of the reference: :obj:`"linear"` (between neighbouring
            values), :obj:`"step"` (the optimal transport map itself),
            :obj:`"barycentric"` (the mean over the mass sent to each point: no node is
            left out, and :math:`M = 1` is mean pooling) or :obj:`"pswe"` (the grid of
            the authors' later code). See :meth:`gswe_pyg.ops.segment_quantile`. By
            default :obj:`"barycentric"` with :obj:`heads` and :obj:`"linear"`
            otherwise. (default: :obj:`None`)
        reference (str, optional): The reference sets are learned as nodes and sliced
            (:obj:`"input"`), learned as slices (:obj:`"slice"`), which has more freedom
            and skips the slicer, or left out (:obj:`None`). The reference
            is a constant that is subtracted from all embeddings: it matters for inner
            products and for the distance to the origin, while a layer with a bias
            absorbs it. By default (:obj:`"auto"`) it is left out with :obj:`heads` and
            :obj:`"input"` otherwise. (default: :obj:`"auto"`)
        out_channels (int, optional): If given, the embedding is projected linearly to
            this width. The projection has no bias: an empty graph stays zero.
            (default: :obj:`None`)
        encode_size (bool, optional): If set to :obj:`True`, appends the logarithm of
            the number of nodes (or of their total weight, zero for an empty graph),
            which the embedding does not see otherwise. For targets that are totals or
            counts this is not enough: use the sum, alone or beside this readout
            (:class:`~torch_geometric.nn.aggr.MultiAggregation`).
            (default: :obj:`False`)
        heads (int, optional): The number :math:`H \le M` of learned combinations of the
            quantiles of each slice. By default the quantiles themselves are returned.
            (default: :obj:`None`)
        extremes (bool, optional): If set to :obj:`True`, the minimum and the maximum of
            each slice are read, too: :math:`R = M + 2` numbers in place of :math:`M`.
            Use it if a single node may decide. Heads start with weight zero for them.
            The distance leaves them out. (default: :obj:`False`)
        device (torch.device, optional): The device of the parameters.
            (default: :obj:`None`)

    Shapes:
        - **input:** nodes :math:`(*, N, \mathrm{in\_channels})`, index :math:`(N)` or
          ptr :math:`(B + 1)`, weight :math:`(N)` *(optional)*. A dense tensor
          :math:`(B, N, \mathrm{in\_channels})` without index is :math:`B` times one
          graph, and gives :math:`(B, 1, *)`: if some of its nodes are padding, pass
          :obj:`x[mask]` and the index of each node instead.
        - **output:** :math:`(*, B, H \cdot L)` with heads and :math:`(*, B, K \cdot L
          \cdot R)` without, one more channel with :obj:`encode_size`, or :math:`(*, B,
          \mathrm{out\_channels})`

    Example:
        >>> x, batch = torch.randn(10, 64), torch.tensor([0] * 4 + [1] * 6)
        >>> readout = GSWEAggregation(64, heads=1)
        >>> readout(x, batch).shape
        torch.Size([2, 64])
        >>> embedding = GSWEAggregation(64, num_slices=16, num_points=8)
        >>> embedding(x, batch).shape
        torch.Size([2, 128])
    """

    def __init__(
        self,
        in_channels: int,
        num_slices: int | None = None,
        num_points: int = 8,
        num_references: int = 1,
        slicer: str | Module | None = None,
        interpolation: str | None = None,
        reference: str | None = "auto",
        out_channels: int | None = None,
        encode_size: bool = False,
        heads: int | None = None,
        extremes: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        in_channels = positive_int("in_channels", in_channels)
        if num_slices is None:
            num_slices = getattr(slicer, "num_slices", in_channels)
        if slicer is None:
            is_same = heads is not None and num_slices == in_channels
            slicer = "identity" if is_same else "linear"
        if interpolation is None:
            interpolation = "linear" if heads is None else "barycentric"
        if reference == "auto":
            reference = "input" if heads is None else None
        self.in_channels = in_channels
        self.num_slices = num_slices = positive_int("num_slices", num_slices)
        self.num_points = num_points = positive_int("num_points", num_points)
        self.num_references = positive_int("num_references", num_references)
        self.interpolation = one_of("interpolation", interpolation, INTERPOLATIONS)
        if reference is not None:
            one_of("reference", reference, REFERENCES)
        self.reference = reference
        if out_channels is not None:
            out_channels = positive_int("out_channels", out_channels)
        self.out_channels = out_channels
        self.encode_size = encode_size
        if heads is not None:
            heads = positive_int("heads", heads)
        self.heads = heads
        self.extremes = extremes
        if num_references > 1 and (reference is None or heads is not None):
            cause = "'reference' is None" if heads is None else "'heads' is given"
            raise ValueError(
                f"'num_references' must be 1 where {cause} (got {num_references}): "
                f"further references would only be shifted copies"
            )
        if heads is not None and heads > num_points:
            raise ValueError(
                f"'heads' must not exceed 'num_points' (got {heads} and {num_points}): "
                f"set 'num_points={heads}' or more"
            )

        with contextlib.nullcontext() if device is None else torch.device(device):
            self.slicer = make_slicer(slicer, in_channels, num_slices)
            self.register_parameter("points", None)
            self.register_parameter("head_weight", None)
            self.lin = None
            if reference is not None:
                width = in_channels if reference == "input" else num_slices
                self.points = Parameter(torch.empty(num_references, num_points, width))
            if heads is not None:
                shape = (heads, num_slices, self.num_reads)
                self.head_weight = Parameter(torch.empty(shape))
            if out_channels is not None:
                self.lin = Linear(self.embedding_channels, out_channels, bias=False)
            self._reset_own_parameters()  # a given slicer may have been trained

    @property
    def num_reads(self) -> int:
        r"""How many numbers are read from a slice: its points and extremes."""
        return self.num_points + 2 * self.extremes

    @property
    def embedding_channels(self) -> int:
        r"""The width of the embedding before any projection."""
        if self.heads is not None:
            channels = self.heads * self.num_slices
        else:
            channels = self.num_references * self.num_slices * self.num_reads
        return channels + int(self.encode_size)

    @property
    def num_channels(self) -> int:
        r"""The width of the output."""
        return self.out_channels or self.embedding_channels

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.slicer)
        self._reset_own_parameters()

    def _reset_own_parameters(self) -> None:
        if self.points is not None:
            torch.nn.init.normal_(self.points, std=REFERENCE_STD)
        if self.head_weight is not None:
            num_heads = self.head_weight.shape[0]
            weights = torch.from_numpy(l_moment_weights(num_heads, self.num_points))
            with torch.no_grad():
                self.head_weight.zero_()
                self.head_weight[..., : self.num_points] = weights[:, None]
        if self.lin is not None:
            self.lin.reset_parameters()

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
        r"""Embeds each graph.

        Args:
            x (torch.Tensor): The nodes of all graphs.
            index (torch.Tensor, optional): The graph that each node belongs to, in any
                order. One of :obj:`index` or :obj:`ptr` must be defined.
                (default: :obj:`None`)
            ptr (torch.Tensor, optional): The boundaries of the graphs, if the nodes of
                each stand together. (default: :obj:`None`)
            dim_size (int, optional): The number of graphs. (default: :obj:`None`)
            dim (int, optional): The dimension of the nodes. (default: :obj:`-2`)
            max_num_elements (int, optional): The size of the largest graph, or a bound
                for it. Nothing is padded. With :obj:`dim_size`, or :obj:`ptr`, nothing
                is then read from a GPU, nor checked: larger graphs become NaN, and
                nodes of other graphs are left out. (default: :obj:`None`)
            weight (torch.Tensor, optional): The mass of each node, not negative: a
                count, an attention or a sampling weight. Only its share of the total of
                the graph matters. (default: :obj:`None`)
        """
        x = elements_first(x, dim, self.in_channels)
        self._check_dtype(x)
        x, ptr, weight, max_num_elements = sort_by_set(
            x, index, ptr, dim_size, weight, max_num_elements
        )

        between = x.shape[1:-1]  # of the elements and the features
        slices = self._slice(x.flatten(end_dim=-2) if between else x)
        if between:
            slices = slices.view(x.shape[0], between.numel() * self.num_slices)
        read = self._read_quantiles if self.heads is None else self._read_heads
        out = read(slices, ptr, weight, between, max_num_elements)
        reference = None if self.reference is None else self._embed_reference()
        if self.lin is None and reference is not None:
            out = _fill_empty(out - reference, ptr)
        if self.encode_size:
            size = _log_size(ptr, weight, out.dtype).to(out.dtype)
            size = size.view(-1, *[1] * (out.dim() - 1)).expand(*out.shape[:-1], 1)
            out = torch.cat([out, size], dim=-1)
        if self.lin is not None:
            out = self.lin(out)
            if reference is not None:
                # Not before: it is linear, and there are fewer channels now.
                zeros = (0, int(self.encode_size))
                reference = torch.nn.functional.pad(reference, zeros)
                out = _fill_empty(out - self.lin(reference), ptr)
        return out.movedim(0, dim) if between else out

    def _read_quantiles(
        self,
        slices: Tensor,
        ptr: Tensor,
        weight: Tensor | None,
        between: torch.Size,
        max_num_elements: int | None,
    ) -> Tensor:
        """The embeddings ``[B, *, K * L * R]``, without the reference."""
        out = segment_quantile(
            slices,
            ptr,
            self.num_points,
            self.interpolation,
            weight,
            self.extremes,
            max_num_elements,
        )
        out = out.view(out.shape[0], *between, 1, self.num_slices, self.num_reads)
        out = out.expand(*out.shape[:-3], self.num_references, *out.shape[-2:])
        return out.flatten(start_dim=-3)

    def _read_heads(
        self,
        slices: Tensor,
        ptr: Tensor,
        weight: Tensor | None,
        between: torch.Size,
        max_num_elements: int | None,
    ) -> Tensor:
        """The combinations ``[B, *, H * L]``, without the reference."""
        head_weight: Tensor = self.head_weight
        if between:
            head_weight = head_weight.repeat(1, between.numel(), 1)
        out = heads_in_rows(
            slices,
            ptr,
            head_weight,
            self.num_points,
            self.interpolation,
            weight,
            self.extremes,
            max_num_elements,
        )
        if not between:
            return out
        num_heads = self.head_weight.shape[0]
        out = out.view(out.shape[0], num_heads, *between, self.num_slices)
        return out.movedim(1, -2).flatten(start_dim=-2)

    def distance(self, a: Tensor, b: Tensor, p: float = 2.0) -> Tensor:
        r"""The generalised sliced-Wasserstein distance of two graphs' sets of nodes

        .. math::
            \mathcal{GSW}_p(\mathcal{X}, \mathcal{Y}) = \left( \frac{1}{K L M}
            \sum_{k,l,m} | \phi(\mathcal{X})_{k,l,m} - \phi(\mathcal{Y})_{k,l,m} |^p
            \right)^{1/p}

        from their embeddings. It is exact for :obj:`"step"` and :obj:`"barycentric"` if
        the sizes of both graphs divide :math:`M`. Otherwise it is an approximation,
        which gets better with more points; :meth:`gswe_pyg.gsw_distance` is exact for
        all sizes.

        Args:
            a (torch.Tensor): One embedding or a batch of them.
            b (torch.Tensor): The other ones.
            p (float, optional): The order of the distance. (default: :obj:`2.0`)

        Shapes:
            - **input:** embeddings :math:`(*, K \cdot L \cdot R)` without projection
            - **output:** distances :math:`(*)`
        """
        for argument, is_given in (
            ("out_channels", self.out_channels is not None),
            ("heads", self.heads is not None),
        ):
            if is_given:
                raise ValueError(
                    f"'distance' needs the embedding itself: build the aggregation "
                    f"without '{argument}'"
                )
        for argument, value in (("a", a), ("b", b)):
            if value.dim() == 0 or value.shape[-1] != self.embedding_channels:
                raise ValueError(
                    f"'{argument}' must be an embedding with {self.embedding_channels} "
                    f"channels (got shape {list(value.shape)})"
                )
        difference = a - b
        if self.encode_size:
            difference = difference[..., :-1]
        if self.extremes:
            difference = difference.unflatten(-1, (-1, self.num_reads))
            difference = difference[..., : self.num_points].flatten(start_dim=-2)
        return power_mean(difference, norm_order(p))

    def describe(self) -> HeadDescription:
        r"""What the heads have learned: for each head and channel (or slice), how
        much it is like the mean, the maximum, the minimum, the median, the spread, the
        skewness and the tails. Prints as a short table; :meth:`HeadDescription.plot`
        draws the weights.

        Example:
            >>> GSWEAggregation(64, heads=2).describe()
            head 0: 64 of 64 channels mean-like, score 1.00
            head 1: 64 of 64 channels spread-like, score 1.00
        """
        if self.head_weight is None:
            raise ValueError(
                "'describe' needs heads: build the aggregation with 'heads=1' or more"
            )
        return describe_heads(self.head_weight, self.num_points, self.extremes)

    def _check_dtype(self, x: Tensor) -> None:
        parameter = self.head_weight
        if parameter is None:
            parameter = self.points
        if parameter is None:
            parameter = next(self.slicer.parameters(), x)
        if x.dtype != parameter.dtype and not torch.is_autocast_enabled(x.device.type):
            raise ValueError(
                f"'x' must have the dtype of the readout, {parameter.dtype} (got "
                f"{x.dtype}): convert one of them, 'x.to({parameter.dtype})' or "
                f"'readout.to({x.dtype})', or use 'torch.autocast'"
            )

    def _slice(self, x: Tensor) -> Tensor:
        slices = self.slicer(x)
        if slices.dim() != 2 or slices.shape != (x.shape[0], self.num_slices):
            raise ValueError(
                f"'slicer' must map [N, {self.in_channels}] to [N, {self.num_slices}], "
                f"since 'num_slices' is {self.num_slices} (got {list(slices.shape)} "
                f"from {list(x.shape)})"
            )
        return slices

    def _embed_reference(self) -> Tensor:
        """What is subtracted from embeddings: ``[K * L * R]``, or ``[H * L]``."""
        points = self._sorted_reference()
        if self.heads is None:
            return points.flatten()
        return torch.einsum("hlr,lr->hl", self.head_weight, points[0]).flatten()

    def _sorted_reference(self) -> Tensor:
        """The reference slices ``[K, L, R]``, ascending, before its extremes."""
        points: Tensor = self.points
        if self.reference == "input":
            points = self._slice(points.flatten(end_dim=1))
        points = points.view(self.num_references, self.num_points, self.num_slices)
        points = points.mT.sort(dim=-1).values
        if self.extremes:
            points = torch.cat([points, points[..., :1], points[..., -1:]], dim=-1)
        return points

    def __repr__(self) -> str:
        options = [
            str(self.in_channels),
            f"num_slices={self.num_slices}",
            f"num_points={self.num_points}",
            f"slicer={self.slicer}",
            f"interpolation='{self.interpolation}'",
            f"reference={self.reference!r}",
        ]
        defaults = {
            "num_references": 1,
            "out_channels": None,
            "encode_size": False,
            "heads": None,
            "extremes": False,
        }
        options += [
            f"{name}={getattr(self, name)}"
            for name, default in defaults.items()
            if getattr(self, name) != default
        ]
        return f"{self.__class__.__name__}({', '.join(options)})"


def _fill_empty(out: Tensor, ptr: Tensor) -> Tensor:
    """Zeros for empty sets, from which a reference was subtracted."""
    is_empty = ptr[1:] == ptr[:-1]
    # Where it is cheap to look, batches without empty sets, the rule, go without.
    looks = is_on_host(ptr) and has_values(ptr)
    if looks and not bool(is_empty.any()):
        return out
    return out.masked_fill(is_empty.view(-1, *[1] * (out.dim() - 1)), 0)


def _log_size(ptr: Tensor, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    size = ptr.diff()
    dtype = torch.promote_types(dtype, torch.float)  # half precision cannot count
    if weight is None:
        return size.clamp(min=1).to(dtype).log()
    dtype = torch.promote_types(dtype, weight.dtype)
    sets = torch.arange(size.numel(), device=ptr.device)
    index = sets.repeat_interleave(size, output_size=weight.numel())
    weight = weight.to(dtype)
    # In units of the largest weight of the set: their sum must not overflow.
    largest = scatter(weight.detach(), index, 0, size.numel(), reduce="max")
    largest = largest.masked_fill(largest == 0, 1)
    total = scatter(weight / largest[index], index, 0, size.numel(), reduce="sum")
    return total.masked_fill(size == 0, 1).log() + largest.log()
