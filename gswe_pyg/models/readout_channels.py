import torch
from torch_geometric.nn.aggr import Aggregation


def readout_channels(readout: Aggregation, in_channels: int) -> int:
    r"""The number of channels that a readout makes of :obj:`in_channels`.

    PyG's aggregations do not say how wide their output is, so a graph of two nodes is
    sent through; parameters, running statistics and the random state are left as they
    are.

    Args:
        readout (Aggregation): Any aggregation.
        in_channels (int): The number of node features.

    Example:
        >>> from torch_geometric.nn.aggr import Set2Set, SortAggregation
        >>> readout_channels(Set2Set(16, processing_steps=2), in_channels=16)
        32
        >>> readout_channels(SortAggregation(k=5), in_channels=16)
        80
    """
    like = next(
        (tensor for tensor in readout.parameters() if tensor.is_floating_point()),
        torch.empty(0),
    )
    x = torch.zeros(2, in_channels, dtype=like.dtype, device=like.device)
    index = torch.zeros(2, dtype=torch.long, device=like.device)
    is_training = {module: module.training for module in readout.modules()}
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            out = readout.eval()(x, index, dim_size=1)
    except Exception as error:
        raise ValueError(
            f"'readout' cannot take the {in_channels} channels that nodes have behind "
            f"the GNN: {error} ({readout})"
        ) from error
    finally:
        for module, mode in is_training.items():
            module.training = mode
    if out.dim() != 2 or out.size(0) != 1:
        raise ValueError(
            f"'readout' must make one row of a graph (got shape {list(out.shape)} from "
            f"{readout})"
        )
    return out.size(1)
