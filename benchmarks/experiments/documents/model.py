"""The networks that learn from labels (paper, appendix A.2)."""

from torch import Tensor
from torch.nn import Dropout, LayerNorm, Linear, Module, ReLU, Sequential
from torch_geometric.nn.aggr import Aggregation

from gswe_pyg.models import readout_channels

#: Hidden layers of the classifier: one of 128 in the paper, and what the authors of
#: RepSet have in their code for readouts that stand on the words themselves.
HIDDEN = 128
OWN_ARCHITECTURES = {"repset": None, "approx_repset": 32}

SCALES = ("none", "layer_norm", "width")


class SetClassifier(Module):
    """Elements to sets to classes: backbone, readout, scale, perceptron.

    ``scale`` says what happens to the embedding: nothing, layer normalisation, or a
    division by the square root of its width.
    """

    def __init__(
        self,
        backbone: Module | None,
        readout: Aggregation,
        in_channels: int,
        hidden: int | None,
        num_classes: int,
        scale: str = "none",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.readout = readout
        width = readout_channels(readout, in_channels)
        self.norm = LayerNorm(width) if scale == "layer_norm" else None
        self.factor = width**-0.5 if scale == "width" else 1.0
        self.dropout = Dropout(dropout)
        self.head = Linear(width, num_classes)
        if hidden is not None:
            self.head = Sequential(
                Linear(width, hidden), ReLU(), Linear(hidden, num_classes)
            )

    def forward(
        self,
        x: Tensor,
        index: Tensor,
        ptr: Tensor,
        num_sets: int,
        weight: Tensor | None = None,
    ) -> Tensor:
        if self.backbone is not None:
            x = self.backbone(x, index, ptr, num_sets)
        options = {} if weight is None else {"weight": weight}
        out = self.readout(x, index, ptr=ptr, dim_size=num_sets, **options)
        out = out * self.factor if self.norm is None else self.norm(out)
        return self.head(self.dropout(out))


class WeightedMean(Aggregation):
    """The mean, in which an element counts as often as its weight says."""

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        weight: Tensor | None = None,
    ) -> Tensor:
        weight = x.new_ones(x.size(0), 1) if weight is None else weight.view(-1, 1)
        total, mass = (
            self.reduce(v, index, ptr, dim_size, dim, "sum")
            for v in (x * weight, weight)
        )
        return total / mass
