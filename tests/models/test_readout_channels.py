import pytest
import torch
from torch_geometric.nn import MLP
from torch_geometric.nn.aggr import (
    AttentionalAggregation,
    DeepSetsAggregation,
    GraphMultisetTransformer,
    LSTMAggregation,
    MeanAggregation,
    MultiAggregation,
    QuantileAggregation,
    Set2Set,
    SetTransformerAggregation,
    SortAggregation,
)

from gswe_pyg import GSWEAggregation
from gswe_pyg.models import PMA, readout_channels


@pytest.mark.parametrize(
    ("readout", "channels"),
    [
        (MeanAggregation(), 8),
        (SortAggregation(k=3), 24),
        (QuantileAggregation([0.25, 0.5, 0.75]), 24),
        (Set2Set(8, 2), 16),
        (LSTMAggregation(8, 5), 5),
        (GraphMultisetTransformer(8, k=2, heads=2), 8),
        (SetTransformerAggregation(8, num_seed_points=3, heads=2), 24),
        (AttentionalAggregation(MLP([8, 1]), MLP([8, 7])), 7),
        (DeepSetsAggregation(MLP([8, 6, 6]), MLP([6, 5, 4])), 4),
        (MultiAggregation(["mean", "max", "std"]), 24),
        (PMA(8, 3, 2), 3 * 8),
        (GSWEAggregation(8, 5, 3, num_references=2), 30),
        (GSWEAggregation(8, 5, 3, encode_size=True), 16),
        (GSWEAggregation(8, 5, 3, out_channels=9), 9),
        (GSWEAggregation(8, 5, 3).double(), 15),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else "",
)
def test_every_readout(readout, channels):
    state = torch.random.get_rng_state()
    before = {key: value.clone() for key, value in readout.state_dict().items()}
    next(readout.modules()).train()
    assert readout_channels(readout, 8) == channels
    assert torch.random.get_rng_state().equal(state)
    assert all(module.training for module in readout.modules())
    for key, value in readout.state_dict().items():
        assert value.equal(before[key]), key


def test_a_readout_of_another_width():
    with pytest.raises(
        ValueError, match=r"cannot take the 8 channels .* 'in_channels'"
    ):
        readout_channels(GSWEAggregation(4, 5, 3), 8)
    with pytest.raises(ValueError, match="'readout' cannot take the 8 channels"):
        readout_channels(Set2Set(4, 2), 8)


def test_a_readout_that_is_none():
    class Nodes(MeanAggregation):
        def forward(self, x, *args, **kwargs):
            return x

    with pytest.raises(ValueError, match=r"one row of a graph .got shape .2, 8."):
        readout_channels(Nodes(), 8)
