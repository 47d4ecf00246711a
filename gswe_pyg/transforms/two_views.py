import copy
from collections.abc import Callable

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform


class TwoViews(BaseTransform):
    r"""Gives two random views of a graph, for contrastive training.

    As the :obj:`transform` of a data set it makes
    :class:`~torch_geometric.loader.DataLoader` yield two batches, in which graph
    :math:`i` of the one and graph :math:`i` of the other are views of the same graph.
    It can also be applied to a batch, which is faster.

    Args:
        transform (callable): The random transform that makes the first view.
        other (callable, optional): The one that makes the second view;
            :obj:`transform` again if :obj:`None`. (default: :obj:`None`)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gswe_pyg.transforms import GaussianJitter, TwoViews
        >>> first, second = TwoViews(GaussianJitter())(Data(pos=torch.zeros(3, 2)))
        >>> torch.equal(first.pos, second.pos)
        False
    """

    def __init__(
        self,
        transform: Callable[[Data], Data],
        other: Callable[[Data], Data] | None = None,
    ) -> None:
        self.transform = transform
        self.other = other

    def forward(self, data: Data) -> tuple[Data, Data]:
        # Functions that are no BaseTransform may write to what they are given.
        other = self.transform if self.other is None else self.other
        return self.transform(copy.copy(data)), other(copy.copy(data))

    def __repr__(self) -> str:
        views = [self.transform] if self.other is None else [self.transform, self.other]
        return f"{self.__class__.__name__}({', '.join(map(repr, views))})"
