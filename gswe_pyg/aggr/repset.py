from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, repeat

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from gswe_pyg._checks import positive_int
from gswe_pyg.aggr.size_groups import SizeGroups

#: Scores of a batch, below which starting threads takes longer than matching.
_WORTH_THREADS = 1 << 18


class _HiddenSets(Aggregation):
    """What both readouts share: hidden sets, and the scores of elements for them."""

    def __init__(self, in_channels: int, num_hidden_sets: int, num_elements: int):
        super().__init__()
        self.in_channels = positive_int("in_channels", in_channels)
        self.num_hidden_sets = positive_int("num_hidden_sets", num_hidden_sets)
        self.num_elements = positive_int("num_elements", num_elements)
        self.out_channels = self.num_hidden_sets
        self.hidden = torch.nn.Parameter(
            torch.empty(num_hidden_sets, num_elements, in_channels)
        )
        self.reset_parameters()

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
        scores = (groups.enter(x) @ self.hidden.flatten(0, 1).t()).relu()
        scores = scores.unflatten(1, (self.num_hidden_sets, self.num_elements))
        out = scores.new_zeros(groups.num_sets, self.out_channels)
        return out.index_copy(0, groups.sets, self._reduce(scores, groups.sizes))

    def _reduce(self, scores: Tensor, sizes: Tensor) -> Tensor:
        """From ``[N, K, M]``, the elements of each set together, to ``[B, K]``."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, "
            f"num_hidden_sets={self.num_hidden_sets}, "
            f"num_elements={self.num_elements})"
        )


class RepSet(_HiddenSets):
    r"""The readout of the `"Rep the Set: Neural Networks for Learning Set
    Representations" <https://arxiv.org/abs/1904.01962>`_ paper: how well a set can be
    matched with each of :math:`K` learned hidden sets of :math:`M` elements,

    .. math::
        \mathrm{RepSet}(\mathcal{X})_k = \frac{1}{|\mathcal{X}|} \max_{\pi}
        \sum_{(x, m) \in \pi} \mathrm{ReLU}(x^{\top} w_{k, m}),

    where :math:`\pi` runs over the matchings of elements of :math:`\mathcal{X}` with
    elements of the hidden set :math:`k`, one to one. The best matching is found on
    the CPU by :meth:`scipy.optimize.linear_sum_assignment` (:obj:`pip install
    gswe-pyg[repset]`), in as many threads as PyTorch may use; the gradient is that of
    the pairs in it. An empty set is mapped to zero, and a set whose scores are not
    finite to NaN.

    It is meant to stand directly on the input features, before a linear classifier.
    See :class:`ApproxRepSet` for a faster variant.

    Args:
        in_channels (int): Size of each element.
        num_hidden_sets (int): The number of hidden sets :math:`K`, the analogue of
            GSWE's :obj:`num_references`.
        num_elements (int): The number of elements :math:`M` of a hidden set, the
            analogue of GSWE's :obj:`num_points`.

    Shapes:
        - **input:** elements :math:`(N, F)`, their sets as :obj:`index`
          :math:`(N)` in any order or :obj:`ptr` :math:`(B + 1)`
        - **output:** sets :math:`(B, K)`

    .. code-block:: python

        >>> readout = RepSet(300, num_hidden_sets=8, num_elements=16)
        >>> index = torch.tensor([0, 0, 1])
        >>> readout(torch.randn(3, 300), index).shape
        torch.Size([2, 8])
    """

    def __init__(
        self, in_channels: int, num_hidden_sets: int, num_elements: int
    ) -> None:
        _assignment_solver()  # tells what to install before anything is trained
        super().__init__(in_channels, num_hidden_sets, num_elements)

    def reset_parameters(self) -> None:
        torch.nn.init.normal_(self.hidden)

    def _reduce(self, scores: Tensor, sizes: Tensor) -> Tensor:
        known = scores.detach().isfinite()
        pairs = _match(scores.detach().where(known, 0).cpu().numpy(), sizes.tolist())
        matched = scores.flatten()[torch.from_numpy(pairs).to(scores.device)]
        # The pairs of the first set with each hidden set, then those of the second.
        num_pairs = sizes.clamp(max=self.num_elements)
        num_pairs = num_pairs.repeat_interleave(self.num_hidden_sets)
        total = _segment_reduce(matched, num_pairs, "sum")
        out = total.view(-1, self.num_hidden_sets) / sizes.unsqueeze(1)
        is_known = _segment_reduce(known.flatten(1).all(1).float(), sizes, "min") == 1
        return out.masked_fill(~is_known.unsqueeze(1), torch.nan)


class ApproxRepSet(_HiddenSets):
    r"""The relaxed readout of the `"Rep the Set: Neural Networks for Learning Set
    Representations" <https://arxiv.org/abs/1904.01962>`_ paper, without a solver.

    Where :class:`RepSet` matches one to one, an element of the smaller one of a set and
    a hidden set may here be matched any number of times. What is left is to match
    each element of the larger one with its best partner:

    .. math::
        \mathrm{ApproxRepSet}(\mathcal{X})_k = \begin{cases}
        \sum_{x \in \mathcal{X}} \max_m \mathrm{ReLU}(x^{\top} w_{k, m})
        & \text{if } |\mathcal{X}| \geq M \\
        \sum_m \max_{x \in \mathcal{X}} \mathrm{ReLU}(x^{\top} w_{k, m})
        & \text{otherwise}
        \end{cases}

    The sum is not divided by the size of the set, as in its authors' code, which takes
    the first case whatever the sizes. An empty set is mapped to zero.

    Args:
        in_channels (int): Size of each element.
        num_hidden_sets (int): The number of hidden sets :math:`K`, the analogue of
            GSWE's :obj:`num_references`.
        num_elements (int): The number of elements :math:`M` of a hidden set, the
            analogue of GSWE's :obj:`num_points`.

    Shapes:
        - **input:** elements :math:`(N, F)`, their sets as :obj:`index`
          :math:`(N)` in any order or :obj:`ptr` :math:`(B + 1)`
        - **output:** sets :math:`(B, K)`

    .. code-block:: python

        >>> readout = ApproxRepSet(300, num_hidden_sets=8, num_elements=16)
        >>> index = torch.tensor([0, 0, 1])
        >>> readout(torch.randn(3, 300), index).shape
        torch.Size([2, 8])
    """

    def reset_parameters(self) -> None:
        torch.nn.init.uniform_(self.hidden, -1, 1)

    def _reduce(self, scores: Tensor, sizes: Tensor) -> Tensor:
        is_large = sizes >= self.num_elements
        in_large = is_large.repeat_interleave(sizes, output_size=len(scores))
        of_large = _segment_reduce(scores[in_large].amax(2), sizes[is_large], "sum")
        of_small = _segment_reduce(scores[~in_large], sizes[~is_large], "max").sum(2)
        out = scores.new_zeros(len(sizes), self.num_hidden_sets)
        out = out.index_copy(0, is_large.nonzero().squeeze(1), of_large)
        return out.index_copy(0, (~is_large).nonzero().squeeze(1), of_small)


def _segment_reduce(src: Tensor, sizes: Tensor, reduce: str) -> Tensor:
    """Reduces consecutive rows, so many at a time."""
    if len(sizes) == 0:  # not supported by PyTorch
        return src
    return torch.segment_reduce(src, reduce, lengths=sizes, axis=0)


def _match(scores: np.ndarray, sizes: list[int]) -> np.ndarray:
    """The best matching of each set with each hidden set.

    Takes the scores ``[N, K, M]`` of the elements, those of a set together. Returns
    the places of the matched scores in the flattened array: those of the first set,
    hidden set by hidden set, then those of the second, and so on.
    """
    bounds = np.cumsum([0, *sizes])
    num_threads = torch.get_num_threads() if scores.size >= _WORTH_THREADS else 1
    # Parts of about equally many elements, whatever the sizes of single sets.
    shares = np.linspace(0, bounds[-1], num_threads + 1)[1:-1]
    cuts = [0, *np.searchsorted(bounds, shares), len(sizes)]
    parts = [range(*part) for part in pairwise(cuts)]
    if num_threads == 1:
        found = [_match_part(scores, bounds, parts[0])]
    else:  # the solver lets go of the interpreter while it works
        with ThreadPoolExecutor(num_threads) as pool:
            found = list(pool.map(_match_part, repeat(scores), repeat(bounds), parts))
    pairs = [places for part in found for places in part]
    return np.concatenate(pairs) if pairs else np.zeros(0, np.int64)


def _match_part(
    scores: np.ndarray, bounds: np.ndarray, sets: range
) -> list[np.ndarray]:
    solve = _assignment_solver()
    _, num_hidden_sets, num_elements = scores.shape
    found = []
    for i in sets:
        for k in range(num_hidden_sets):
            rows, columns = solve(scores[bounds[i] : bounds[i + 1], k], maximize=True)
            rows = (rows + bounds[i]) * num_hidden_sets + k
            found.append(rows * num_elements + columns)
    return found


def _assignment_solver() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise ImportError(
            "'RepSet' needs scipy: install it by 'pip install gswe-pyg[repset]'"
        ) from error
    return linear_sum_assignment
