import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.nn import Linear
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.inits import reset
from torch_geometric.utils import index_sort, scatter

from gswe_pyg.ops import segment_quantile
from gswe_pyg.ops.interpolation import INTERPOLATIONS
from gswe_pyg.slicers import make_slicer

REFERENCES = ("input", "slice")

#: Deviation of the initial points. The reference is a constant part of all embeddings,
#: on which, if it were large, losses by inner products would look instead of the sets.
REFERENCE_STD = 0.1


class GSWEAggregation(Aggregation):
    r"""The Generalized Sliced-Wasserstein Embedding from the `"Set Representation
    Learning with Generalized Sliced-Wasserstein Embeddings"
    <https://arxiv.org/abs/2103.03892>`_ paper

    .. math::
        \phi(\mathcal{X})_{k, l, m} = F^{-1}_{g_l(\mathcal{X})} \left( \tfrac{m +
        1/2}{M} \right) - g_l(\mathcal{Z}_k)_{(m)},

    where :math:`g_1, \dots, g_L` are slices, :math:`F^{-1}` denotes the quantile
    function of a slice of the set, and :math:`g_l(\mathcal{Z}_k)_{(m)}` the
    :math:`m`-th smallest value of that slice of the reference set :math:`\mathcal{Z}_k`
    of :math:`M` learned points. The Euclidean distance of two embeddings is, up to
    scale, the generalised sliced-Wasserstein distance of the sets
    (:meth:`distance`).

    An empty set is mapped to zero, as the reference itself is.

    Args:
        in_channels (int): The number of features of an element.
        num_slices (int): The number of slices :math:`L`.
        num_points (int): The number of points :math:`M` of a reference set.
        num_references (int, optional): The number of reference sets :math:`K`, whose
            embeddings are concatenated. (default: :obj:`1`)
        slicer (str or torch.nn.Module, optional): The slices: :obj:`"linear"`
            (directions of unit length), :obj:`"mlp"` (a perceptron, where slices should
            bend freely), :obj:`"polynomial"` (of degree three, for few features),
            :obj:`"identity"` (the features themselves, behind a network that ends in
            slices), or any module from :math:`(N, \mathrm{in\_channels})` to
            :math:`(N, L)`. (default: :obj:`"linear"`)
        interpolation (str, optional): How a set of another size than :math:`M` is read
            at the ranks of the reference: :obj:`"linear"` (smooth in all sizes),
            :obj:`"step"` (the optimal transport map itself), :obj:`"barycentric"` (the
            mean over the mass sent to each point: no element is ever ignored, and
            :math:`M = 1` is mean pooling) or :obj:`"pswe"` (the grid of the authors'
            later code). See :meth:`gswe_pyg.ops.segment_quantile`.
            (default: :obj:`"linear"`)
        reference (str, optional): The reference sets are learned as elements and
            sliced (:obj:`"input"`), or learned as slices (:obj:`"slice"`), which has
            more freedom and skips the slicer. (default: :obj:`"input"`)
        out_channels (int, optional): If given, the embedding is projected linearly to
            this width, e.g., to take the place of mean pooling. The projection has no
            bias: an empty set stays zero. (default: :obj:`None`)
        encode_size (bool, optional): If set to :obj:`True`, appends the logarithm of
            the number of elements (or of their total weight, zero for an empty set), to
            which the embedding is blind otherwise. (default: :obj:`False`)

    Shapes:
        - **input:** elements :math:`(*, N, \mathrm{in\_channels})`, index :math:`(N)`
          or ptr :math:`(B + 1)`, weight :math:`(N)` *(optional)*
        - **output:** :math:`(*, B, K \cdot L \cdot M)`, one more channel with
          :obj:`encode_size`, or :math:`(*, B, \mathrm{out\_channels})`

    Example:
        >>> readout = GSWEAggregation(64, num_slices=16, num_points=8)
        >>> x, batch = torch.randn(10, 64), torch.tensor([0] * 4 + [1] * 6)
        >>> readout(x, batch).shape
        torch.Size([2, 128])
    """

    def __init__(
        self,
        in_channels: int,
        num_slices: int,
        num_points: int,
        num_references: int = 1,
        slicer: str | Module = "linear",
        interpolation: str = "linear",
        reference: str = "input",
        out_channels: int | None = None,
        encode_size: bool = False,
    ) -> None:
        super().__init__()
        for argument, value in {
            "in_channels": in_channels,
            "num_slices": num_slices,
            "num_points": num_points,
            "num_references": num_references,
            "out_channels": 1 if out_channels is None else out_channels,
        }.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"'{argument}' must be a positive integer (got {value})"
                )
        if interpolation not in INTERPOLATIONS:
            raise ValueError(
                f"'interpolation' must be one of {list(INTERPOLATIONS)} (got "
                f"{interpolation!r})"
            )
        if reference not in REFERENCES:
            raise ValueError(
                f"'reference' must be one of {list(REFERENCES)} (got {reference!r})"
            )
        self.in_channels = in_channels
        self.num_slices = num_slices
        self.num_points = num_points
        self.num_references = num_references
        self.interpolation = interpolation
        self.reference = reference
        self.out_channels = out_channels
        self.encode_size = encode_size

        self.slicer = make_slicer(slicer, in_channels, num_slices)
        width = in_channels if reference == "input" else num_slices
        self.points = Parameter(torch.empty(num_references, num_points, width))
        self.lin = None
        if out_channels is not None:
            self.lin = Linear(self.embedding_channels, out_channels, bias=False)
        self._reset_own_parameters()  # a slicer that was given may have been trained

    @property
    def embedding_channels(self) -> int:
        r"""The width of the embedding before any projection."""
        channels = self.num_references * self.num_slices * self.num_points
        return channels + int(self.encode_size)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.slicer)
        self._reset_own_parameters()

    def _reset_own_parameters(self) -> None:
        torch.nn.init.normal_(self.points, std=REFERENCE_STD)
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
        r"""Embeds each set.

        Args:
            x (torch.Tensor): The elements of all sets.
            index (torch.Tensor, optional): The set that each element belongs to, in any
                order. One of :obj:`index` or :obj:`ptr` must be defined.
                (default: :obj:`None`)
            ptr (torch.Tensor, optional): The boundaries of the sets, whose elements
                then stand together. (default: :obj:`None`)
            dim_size (int, optional): The number of sets. (default: :obj:`None`)
            dim (int, optional): The dimension of the elements. (default: :obj:`-2`)
            max_num_elements (int, optional): Not needed, since nothing is padded.
                (default: :obj:`None`)
            weight (torch.Tensor, optional): The mass of each element, not negative: a
                count, an attention or a sampling weight. Only its share of the total of
                the set matters. (default: :obj:`None`)
        """
        x = self._elements_first(x, dim)
        x, ptr, weight = _sort_by_set(x, index, ptr, dim_size, weight)

        num_columns = x.shape[1:-1].numel() * self.num_slices
        slices = self._slice(x.flatten(end_dim=-2)).reshape(x.shape[0], num_columns)
        out = segment_quantile(slices, ptr, self.num_points, self.interpolation, weight)
        # [B, *, 1, L, M] against [K, L, M].
        shape = (*x.shape[1:-1], 1, self.num_slices, self.num_points)
        out = out.view(out.shape[0], *shape) - self._sorted_reference()
        out = out.flatten(start_dim=-3)
        is_empty = ptr[1:] == ptr[:-1]
        # Where it is cheap to look, batches without empty sets, the rule, go without.
        looks = ptr.device.type == "cpu" and not torch.compiler.is_compiling()
        if not looks or bool(is_empty.any()):
            out = out.masked_fill(is_empty.view(-1, *[1] * (out.dim() - 1)), 0)

        if self.encode_size:
            size = _log_size(ptr, weight, out.dtype).to(out.dtype)
            size = size.view(-1, *[1] * (out.dim() - 1)).expand(*out.shape[:-1], 1)
            out = torch.cat([out, size], dim=-1)
        if self.lin is not None:
            out = self.lin(out)
        return out.movedim(0, dim)

    def distance(self, a: Tensor, b: Tensor, p: float = 2.0) -> Tensor:
        r"""The generalised sliced-Wasserstein distance of two sets

        .. math::
            \mathcal{GSW}_p(\mathcal{X}, \mathcal{Y}) = \left( \frac{1}{K L M}
            \sum_{k,l,m} | \phi(\mathcal{X})_{k,l,m} - \phi(\mathcal{Y})_{k,l,m} |^p
            \right)^{1/p}

        from their embeddings. It is the exact distance wherever the interpolation
        represents both sets exactly: for :obj:`"step"` and :obj:`"barycentric"`, if
        their sizes divide :math:`M`. For sets of any sizes, see
        :meth:`gswe_pyg.gsw_distance`.

        Args:
            a (torch.Tensor): One embedding or a batch of them.
            b (torch.Tensor): The other ones.
            p (float, optional): The order of the distance. (default: :obj:`2.0`)

        Shapes:
            - **input:** embeddings :math:`(*, K \cdot L \cdot M)` without projection
            - **output:** distances :math:`(*)`
        """
        if self.lin is not None:
            raise ValueError(
                "'distance' needs embeddings that are not projected: build the "
                "aggregation without 'out_channels'"
            )
        if p < 1:
            raise ValueError(f"'p' must be at least 1 (got {p})")
        for argument, value in (("a", a), ("b", b)):
            if value.dim() == 0 or value.shape[-1] != self.embedding_channels:
                raise ValueError(
                    f"'{argument}' must be an embedding with {self.embedding_channels} "
                    f"channels (got shape {list(value.shape)})"
                )
        channels = self.embedding_channels - int(self.encode_size)
        norm = torch.linalg.vector_norm((a - b)[..., :channels], ord=p, dim=-1)
        return norm / channels ** (1 / p)

    def _elements_first(self, x: Tensor, dim: int) -> Tensor:
        if x.dim() < 2 or x.shape[-1] != self.in_channels:
            raise ValueError(
                f"'x' must be of shape [*, num_elements, {self.in_channels}], since "
                f"'in_channels' is {self.in_channels} (got {list(x.shape)})"
            )
        if not x.is_floating_point():
            raise ValueError(
                f"'x' must be a floating point tensor (got {x.dtype}): convert it by "
                f"'x.float()'"
            )
        if dim % x.dim() == x.dim() - 1:
            raise ValueError(
                f"'dim' must not be the dimension of the features (got {dim} for 'x' "
                f"of shape {list(x.shape)})"
            )
        return x.movedim(dim, 0)

    def _slice(self, x: Tensor) -> Tensor:
        slices = self.slicer(x)
        if slices.dim() != 2 or slices.shape != (x.shape[0], self.num_slices):
            raise ValueError(
                f"'slicer' must map [N, {self.in_channels}] to [N, {self.num_slices}], "
                f"since 'num_slices' is {self.num_slices} (got {list(slices.shape)} "
                f"from {list(x.shape)})"
            )
        return slices

    def _sorted_reference(self) -> Tensor:
        """The reference slices ``[K, L, M]``, ascending."""
        points = self.points
        if self.reference == "input":
            points = self._slice(points.flatten(end_dim=1))
        points = points.view(self.num_references, self.num_points, self.num_slices)
        return points.mT.sort(dim=-1).values

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, "
            f"num_slices={self.num_slices}, num_points={self.num_points}, "
            f"num_references={self.num_references}, slicer={self.slicer}, "
            f"interpolation='{self.interpolation}', reference='{self.reference}', "
            f"out_channels={self.out_channels}, encode_size={self.encode_size})"
        )


def _sort_by_set(
    x: Tensor,
    index: Tensor | None,
    ptr: Tensor | None,
    dim_size: int | None,
    weight: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Brings the elements of each set together; returns them with their boundaries."""
    num_elements = x.shape[0]
    if weight is not None and weight.shape != (num_elements,):
        raise ValueError(
            f"'weight' must have one entry for each of the {num_elements} elements "
            f"(got shape {list(weight.shape)})"
        )
    if ptr is not None:
        return x, ptr, weight
    if index is None:
        raise ValueError("One of 'index' and 'ptr' must be given")
    if index.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"'index' must be an integer tensor (got {index.dtype}): convert it by "
            f"'index.long()'"
        )
    if index.shape != (num_elements,):
        raise ValueError(
            f"'index' must have one entry for each of the {num_elements} elements (got "
            f"shape {list(index.shape)})"
        )
    index = index.long()
    # While compiling, values are unknown: sort in any case.
    if torch.compiler.is_compiling() or bool((index[1:] < index[:-1]).any()):
        index, order = index_sort(index, max_value=dim_size, stable=True)
        x = x.index_select(0, order)
        weight = None if weight is None else weight.index_select(0, order)
    if dim_size is None:
        dim_size = int(index[-1]) + 1 if num_elements > 0 else 0
    if torch.compiler.is_compiling():
        torch._check(dim_size >= 0)  # may come from the values of 'index'
    elif num_elements > 0:
        smallest, largest = index[0].item(), index[-1].item()
        if smallest < 0:
            raise ValueError(f"'index' must not be negative (got {smallest})")
        if largest >= dim_size:
            raise ValueError(
                f"'dim_size' must exceed the largest 'index' (got {dim_size} and "
                f"{largest}): pass at least {largest + 1}"
            )
    sets = torch.arange(dim_size + 1, device=index.device)
    return x, torch.searchsorted(index, sets), weight


def _log_size(ptr: Tensor, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    size = ptr.diff()
    dtype = torch.promote_types(dtype, torch.float)  # half precision cannot count
    if weight is None:
        return size.clamp(min=1).to(dtype).log()
    sets = torch.arange(size.numel(), device=ptr.device)
    index = sets.repeat_interleave(size, output_size=weight.numel())
    weight = weight.to(dtype)
    total = scatter(weight, index, dim=0, dim_size=size.numel(), reduce="sum")
    return total.masked_fill(size == 0, 1).log()
