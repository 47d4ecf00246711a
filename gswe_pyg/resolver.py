import torch_geometric.nn.aggr

from gswe_pyg.aggr import GSWEAggregation, MedianAggregation, QuantileAggregation


class FastQuantileAggregation(QuantileAggregation):
    r""":class:`~gswe_pyg.aggr.QuantileAggregation` under a name that PyG has not
    taken."""


class FastMedianAggregation(MedianAggregation):
    r""":class:`~gswe_pyg.aggr.MedianAggregation` under a name that PyG has not
    taken."""


REGISTERED = (GSWEAggregation, FastQuantileAggregation, FastMedianAggregation)


def register() -> None:
    r"""Makes :obj:`"gswe"`, :obj:`"fast_quantile"` and :obj:`"fast_median"` known to
    :obj:`aggregation_resolver`, and so to all of PyG that takes the name of an
    aggregation.

    PyG looks names up among the classes in :obj:`torch_geometric.nn.aggr`. This adds
    three classes there, and nothing else; calling it again does nothing.

    Example:
        >>> import gswe_pyg
        >>> from torch_geometric.nn import SAGEConv
        >>> gswe_pyg.register()
        >>> options = dict(in_channels=16, heads=1)
        >>> conv = SAGEConv(16, 32, aggr="gswe", aggr_kwargs=options)
    """
    namespace = torch_geometric.nn.aggr
    for kind in REGISTERED:
        present = getattr(namespace, kind.__name__, kind)
        if present is not kind:
            raise RuntimeError(
                f"'torch_geometric.nn.aggr' has another '{kind.__name__}' already "
                f"({present}): pass '{kind.__name__}(...)' itself instead of its name"
            )
    for kind in REGISTERED:
        setattr(namespace, kind.__name__, kind)
