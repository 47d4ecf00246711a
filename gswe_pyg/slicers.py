r"""Slicers :math:`g: \mathbb{R}^d \to \mathbb{R}^L`: each output channel is a slice."""

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, ModuleList, Parameter
from torch_geometric.nn import Linear
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from gswe_pyg._checks import one_of, positive_int

# More coefficients a slice than this are a mistake rather than a model.
_MAX_MONOMIALS = 100_000


class LinearSlicer(Module):
    r"""Projections onto learned directions of unit length

    .. math::
        g_l(\mathbf{x}) = \frac{\boldsymbol{\theta}_l}{\| \boldsymbol{\theta}_l \|}
        \cdot \mathbf{x},

    the slices of the sliced-Wasserstein distance. The initial directions are
    orthogonal within each group of :obj:`in_channels` slices, which covers the sphere
    more evenly than independent ones do.

    Args:
        in_channels (int): The number of features :math:`d` of an element.
        num_slices (int): The number of slices :math:`L`.

    Shapes:
        - **input:** elements :math:`(N, d)`
        - **output:** slices :math:`(N, L)`

    Example:
        >>> slicer = LinearSlicer(16, num_slices=8)
        >>> slicer(torch.randn(10, 16)).shape
        torch.Size([10, 8])
    """

    def __init__(self, in_channels: int, num_slices: int) -> None:
        super().__init__()
        self.in_channels = positive_int("in_channels", in_channels)
        self.num_slices = positive_int("num_slices", num_slices)
        self.weight = Parameter(torch.empty(num_slices, in_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Draws new directions."""
        with torch.no_grad():
            for block in self.weight.split(self.in_channels):
                torch.nn.init.orthogonal_(block)

    def forward(self, x: Tensor) -> Tensor:
        r""""""
        return _slices(x, F.normalize(self.weight, dim=-1))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.in_channels}, {self.num_slices})"


class PolynomialSlicer(Module):
    r"""Homogeneous polynomials of odd degree

    .. math::
        g_l(\mathbf{x}) = \sum_{|\alpha| = m} \theta_{l, \alpha} \mathbf{x}^{\alpha},
        \qquad \| \boldsymbol{\theta}_l \| = 1,

    the generalised slices of `"Generalized Sliced Wasserstein Distances"
    <https://arxiv.org/abs/1902.00434>`_, whose level sets are curved. There are
    :math:`\binom{d + m - 1}{m}` coefficients a slice: use it for few features, or
    behind a layer that reduces them.

    Args:
        in_channels (int): The number of features :math:`d` of an element.
        num_slices (int): The number of slices :math:`L`.
        degree (int, optional): The degree :math:`m`, odd. (default: :obj:`3`)

    Shapes:
        - **input:** elements :math:`(N, d)`
        - **output:** slices :math:`(N, L)`

    Example:
        >>> slicer = PolynomialSlicer(2, num_slices=8, degree=5)
        >>> slicer(torch.randn(10, 2)).shape
        torch.Size([10, 8])
    """

    def __init__(self, in_channels: int, num_slices: int, degree: int = 3) -> None:
        super().__init__()
        self.in_channels = positive_int("in_channels", in_channels)
        self.num_slices = positive_int("num_slices", num_slices)
        self.degree = positive_int("degree", degree)
        if degree % 2 == 0:
            raise ValueError(f"'degree' must be odd (got {degree})")
        num_monomials = math.comb(in_channels + degree - 1, degree)
        if num_monomials > _MAX_MONOMIALS:
            raise ValueError(
                f"A polynomial of 'degree' {degree} in {in_channels} 'in_channels' has "
                f"{num_monomials} coefficients: lower the degree, reduce the features "
                f"by a linear layer, or use the slicer 'mlp'"
            )
        self.weight = Parameter(torch.empty(num_slices, num_monomials))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Draws new coefficients."""
        torch.nn.init.normal_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        r""""""
        # In lexicographic order, the monomials without the first i variables are the
        # last ones of their degree.
        monomials, num_variables = x, self.in_channels
        for degree in range(1, self.degree):
            sizes = [
                math.comb(num_variables - i + degree - 1, degree)
                for i in range(num_variables)
            ]
            products = [
                x[:, i, None] * monomials[:, -size:] for i, size in enumerate(sizes)
            ]
            monomials = torch.cat(products, dim=1)
        return _slices(monomials, F.normalize(self.weight, dim=-1))

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.num_slices}, "
            f"degree={self.degree})"
        )


class MLPSlicer(Module):
    r"""A multi-layer perceptron whose slices share all layers but the last

    .. math::
        g_l(\mathbf{x}) = \boldsymbol{\theta}_l \cdot h(\mathbf{x}),

    as the paper builds its slices.

    Args:
        in_channels (int): The number of features :math:`d` of an element.
        num_slices (int): The number of slices :math:`L`.
        hidden_channels (int, optional): The width of the hidden layers. By default the
            larger one of input and output. (default: :obj:`None`)
        num_layers (int, optional): The number of layers, the last one included.
            (default: :obj:`2`)
        act (str or Callable, optional): The non-linearity between layers.
            (default: :obj:`"relu"`)

    Shapes:
        - **input:** elements :math:`(N, d)`
        - **output:** slices :math:`(N, L)`

    Example:
        >>> slicer = MLPSlicer(16, num_slices=8, hidden_channels=32)
        >>> slicer(torch.randn(10, 16)).shape
        torch.Size([10, 8])
    """

    def __init__(
        self,
        in_channels: int,
        num_slices: int,
        hidden_channels: int | None = None,
        num_layers: int = 2,
        act: str = "relu",
    ) -> None:
        super().__init__()
        self.in_channels = positive_int("in_channels", in_channels)
        self.num_slices = positive_int("num_slices", num_slices)
        if hidden_channels is None:
            hidden_channels = max(in_channels, num_slices)
        self.hidden_channels = positive_int("hidden_channels", hidden_channels)
        self.num_layers = positive_int("num_layers", num_layers)
        widths = [in_channels] + [hidden_channels] * (num_layers - 1)
        # PyG's layer, because GraphGym initialises every `torch.nn.Linear` anew.
        self.hidden = ModuleList(Linear(*pair) for pair in pairwise(widths))
        self.act = activation_resolver(act)
        self.weight = Parameter(torch.empty(num_slices, widths[-1]))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.hidden)
        torch.nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        r""""""
        for layer in self.hidden:
            x = self.act(layer(x))
        # No bias: a set and the reference are shifted alike.
        return _slices(x, self.weight)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.num_slices}, "
            f"hidden_channels={self.hidden_channels}, num_layers={self.num_layers})"
        )


class IdentitySlicer(Module):
    r"""Every feature is a slice: for elements that a network has sliced already.

    Args:
        in_channels (int): The number of features :math:`d = L` of an element.

    Shapes:
        - **input:** elements :math:`(N, d)`
        - **output:** slices :math:`(N, d)`

    Example:
        >>> slicer = IdentitySlicer(4)
        >>> x = torch.randn(10, 4)
        >>> torch.equal(slicer(x), x)
        True
    """

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.in_channels = self.num_slices = positive_int("in_channels", in_channels)

    def forward(self, x: Tensor) -> Tensor:
        r""""""
        return x

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.in_channels})"


SLICERS = ("linear", "mlp", "polynomial", "identity")


def make_slicer(slicer: str | Module, in_channels: int, num_slices: int) -> Module:
    """The slicer of that name, or the given module as it is."""
    if isinstance(slicer, Module):
        return slicer
    other = "or a module from [N, in_channels] to [N, num_slices] "
    one_of("slicer", slicer, SLICERS, other=other)
    if slicer == "linear":
        return LinearSlicer(in_channels, num_slices)
    if slicer == "mlp":
        return MLPSlicer(in_channels, num_slices)
    if slicer == "polynomial":
        return PolynomialSlicer(in_channels, num_slices)
    if in_channels != num_slices:
        raise ValueError(
            f"The slicer 'identity' needs 'num_slices' equal to 'in_channels' (got "
            f"{num_slices} and {in_channels})"
        )
    return IdentitySlicer(in_channels)


def _slices(x: Tensor, weight: Tensor) -> Tensor:
    # The slices of an element side by side in memory, where a network sorts them.
    return F.linear(x, weight)
