import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gswe_pyg._checks import positive_int
from gswe_pyg.transforms.select_elements import per_graph, select_elements


@functional_transform("resample_elements")
class ResampleElements(BaseTransform):
    r"""Draws the elements of a set anew from the set, with replacement (functional
    name: :obj:`resample_elements`): a sample of the same distribution, of another
    size if wanted.

    In contrast to :class:`torch_geometric.transforms.FixedPoints`, the random numbers
    are those of torch, sets of one element are resampled too, sets of none stay
    empty, and the number may follow the set. A batch can be given instead of a graph.

    Args:
        num (int, optional): The number of elements to draw; as many as the set has if
            :obj:`None`. (default: :obj:`None`)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gswe_pyg.transforms import ResampleElements
        >>> data = Data(x=torch.randn(5, 2), y=torch.tensor([1]))
        >>> ResampleElements(num=8)(data)
        Data(x=[8, 2], y=[1])
    """

    def __init__(self, num: int | None = None) -> None:
        self.num = None if num is None else positive_int("num", num)

    def forward(self, data: Data) -> Data:
        return per_graph(self._resample, data)

    def _resample(self, data: Data) -> Data:
        if data.num_edges > 0:
            raise ValueError(
                "'data' must have no edges: it is not defined which edges an element "
                "that was drawn twice would have"
            )
        if data.num_nodes == 0:
            return data
        drawn = torch.randint(
            data.num_nodes, (data.num_nodes if self.num is None else self.num,)
        )
        return select_elements(data, drawn)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(num={self.num})"
