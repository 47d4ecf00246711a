from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset


class MLP(torch.nn.Module):
    r"""The element-wise backbone: the same perceptron on every element of a set.

    Linear layers with ReLU between them and none after the last. The elements
    do not see each other, so the indices are accepted, for the sake of one call
    for all backbones, and not used.

    Args:
        in_channels (int): Size of each input element.
        hidden_channels (Sequence[int]): Sizes of the hidden layers.
        out_channels (int): Size of each output element.

    Shapes:
        - **input:** elements :math:`(N, F_{in})`
        - **output:** elements :math:`(N, F_{out})`

    .. code-block:: python

        >>> backbone = MLP(2, [64, 64], 1)
        >>> backbone(torch.randn(10, 2)).shape
        torch.Size([10, 1])
    """

    def __init__(
        self, in_channels: int, hidden_channels: Sequence[int], out_channels: int
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.hidden_channels = list(hidden_channels)
        self.out_channels = out_channels
        sizes = [in_channels, *hidden_channels, out_channels]
        self.lins = torch.nn.ModuleList(
            torch.nn.Linear(fan_in, fan_out) for fan_in, fan_out in pairwise(sizes)
        )

    def reset_parameters(self) -> None:
        reset(self.lins)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor:
        for lin in self.lins[:-1]:
            x = lin(x).relu()
        return self.lins[-1](x)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, "
            f"{self.hidden_channels}, {self.out_channels})"
        )
