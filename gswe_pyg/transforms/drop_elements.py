import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gswe_pyg.transforms.select_elements import per_graph, select_elements


@functional_transform("drop_elements")
class DropElements(BaseTransform):
    r"""Removes every element of a set with probability :math:`p`, and its edges with
    it (functional name: :obj:`drop_elements`).

    One random element stays where all would have gone: a set does not become empty. A
    batch can be given instead of a graph.

    Args:
        p (float, optional): The probability to remove an element.
            (default: :obj:`0.2`)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gswe_pyg.transforms import DropElements
        >>> data = Data(x=torch.randn(5, 2), y=torch.tensor([1]))
        >>> DropElements(p=1.0)(data)
        Data(x=[1, 2], y=[1])
    """

    def __init__(self, p: float = 0.2) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"'p' must be between 0 and 1 (got {p})")
        self.p = p

    def forward(self, data: Data) -> Data:
        return per_graph(self._drop, data)

    def _drop(self, data: Data) -> Data:
        kept = torch.rand(data.num_nodes) >= self.p
        if data.num_nodes > 0 and not kept.any():
            kept[torch.randint(data.num_nodes, (1,))] = True
        return select_elements(data, kept)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(p={self.p})"
