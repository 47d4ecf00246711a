import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.graphgym.config import cfg
from torch_geometric.graphgym.models.layer import MLP, new_layer_config
from torch_geometric.graphgym.register import register_head, register_pooling

from gswe_pyg.aggr import GSWEAggregation
from gswe_pyg.graphgym.config import aggregation_options


@register_head("gswe")
class GSWEGraphHead(torch.nn.Module):
    r"""A head for graph-level tasks that reads out by
    :class:`~gswe_pyg.GSWEAggregation`, with the options of the config group
    :obj:`gswe`, in front of the layers that GraphGym's own head has.

    Args:
        dim_in (int): The number of node features.
        dim_out (int): The number of outputs.
    """

    # GraphGym's own head takes its pooling from a dictionary, one for all models and
    # without parameters, and does not pass the number of graphs to it.

    def __init__(self, dim_in: int, dim_out: int) -> None:
        super().__init__()
        if cfg.dataset.task != "graph":
            raise ValueError(
                f"'gnn.head: gswe' is for graphs (got 'dataset.task: "
                f"{cfg.dataset.task}' in the config): use 'dataset.task: graph'"
            )
        self.readout = GSWEAggregation(**aggregation_options(cfg, dim_in))
        self.layer_post_mp = MLP(
            new_layer_config(
                self.readout.num_channels,
                dim_out,
                cfg.gnn.layers_post_mp,
                has_act=False,
                has_bias=True,
                cfg=cfg,
            )
        )

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        r""""""
        # Trailing graphs may be empty: the largest index does not tell their number.
        num_graphs = getattr(batch, "num_graphs", None)
        out = self.readout(batch.x, batch.batch, dim_size=num_graphs)
        batch.graph_feature = self.layer_post_mp(out)
        return batch.graph_feature, batch.y


@register_pooling("gswe")
def refuse_pooling(x: Tensor, batch: Tensor | None) -> Tensor:
    """The nearest wrong place in a config."""
    raise ValueError(
        "GSWE has parameters, which 'model.graph_pooling' has no place for: write "
        "'gnn.head: gswe' into the config"
    )
