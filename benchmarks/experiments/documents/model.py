"""The networks that learn from labels (paper, appendix A.2)."""

from torch import Tensor
from torch.nn import Dropout, Identity, LayerNorm, Linear, Module, ReLU, Sequential
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
        self.backbone, self.readout = backbone, readout
        width = readout_channels(readout, in_channels)
        self.factor = width**-0.5 if scale == "width" else 1.0
        self.norm = LayerNorm(width) if scale == "layer_norm" else Identity()
        self.dropout = Dropout(dropout)
        # Drawn even if it is not used: the runs on file were made like that.
        self.head = Linear(width, num_classes)
        if hidden is not None:
            layers = Linear(width, hidden), ReLU(), Linear(hidden, num_classes)
            self.head = Sequential(*layers)

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
        return self.head(self.dropout(self.norm(self.factor * out)))


class WeightedMean(Aggregation):
    """The mean, in which an element counts as often as its weight says."""

    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2, weight=None):
        weight = x.new_ones(len(x), 1) if weight is None else weight.view(-1, 1)
        total, mass = (
            self.reduce(values, index, ptr, dim_size, dim, "sum")
            for values in (x * weight, weight)
        )
        return total / mass
