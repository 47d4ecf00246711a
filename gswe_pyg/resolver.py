import torch_geometric.nn.aggr

from gswe_pyg.aggr import GSWEAggregation


def register() -> None:
    r"""Makes :obj:`"gswe"` known to :obj:`aggregation_resolver`, and so to all of PyG
    that takes the name of an aggregation.

    PyG looks names up among the classes in :obj:`torch_geometric.nn.aggr`. This adds
    :class:`~gswe_pyg.GSWEAggregation` there, and nothing else; calling it again does
    nothing.

    Example:
        >>> import gswe_pyg
        >>> from torch_geometric.nn import SAGEConv
        >>> gswe_pyg.register()
        >>> options = dict(in_channels=16, num_slices=16, num_points=4, out_channels=16)
        >>> conv = SAGEConv(16, 32, aggr="gswe", aggr_kwargs=options)
    """
    namespace = torch_geometric.nn.aggr
    present = getattr(namespace, GSWEAggregation.__name__, GSWEAggregation)
    if present is not GSWEAggregation:
        raise RuntimeError(
            f"'torch_geometric.nn.aggr' has another '{GSWEAggregation.__name__}' "
            f"already ({present}): pass 'GSWEAggregation(...)' itself instead of its "
            f"name"
        )
    setattr(namespace, GSWEAggregation.__name__, GSWEAggregation)
