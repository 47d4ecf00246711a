from collections.abc import Callable

from torch import Tensor
from torch_geometric.data import Batch, Data


def select_elements(data: Data, subset: Tensor) -> Data:
    r"""Keeps the nodes :obj:`subset`, given by a mask or by indices.

    :obj:`y` is the label of the set, also where a set has as many elements as labels.
    """
    tensors = (value for value in data.to_dict().values() if isinstance(value, Tensor))
    selected = data.subgraph(subset.to(next(tensors).device))
    if "y" in data:
        selected.y = data.y
    return selected


def per_graph(function: Callable[[Data], Data], data: Data) -> Data:
    """Applies a function that changes the number of nodes, also to every graph of a
    batch."""
    if not isinstance(data, Batch):
        return function(data)
    return Batch.from_data_list([function(graph) for graph in data.to_data_list()])
