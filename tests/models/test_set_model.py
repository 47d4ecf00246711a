import torch
from torch_geometric.nn import MeanAggregation

from gswe_pyg.models import MLP, PMA, SetModel, SharedSAB


def test_set_model_is_backbone_then_readout():
    backbone = MLP(2, [8], 3)
    model = SetModel(backbone, MeanAggregation())
    x, index = torch.randn(5, 2), torch.tensor([0, 0, 2, 2, 2])
    out = model(x, index, dim_size=4)
    expected = torch.zeros(4, 3)
    expected[0] = backbone(x[:2]).mean(dim=0)
    expected[2] = backbone(x[2:]).mean(dim=0)
    torch.testing.assert_close(out, expected)


def test_set_model_passes_the_sets_to_both_parts():
    model = SetModel(SharedSAB(2, 8, 4, heads=2, num_layers=2), PMA(4, num_seeds=3))
    x, ptr = torch.randn(7, 2), torch.tensor([0, 3, 3, 7])
    out = model(x, ptr=ptr)
    assert out.shape == (3, 12)
    torch.testing.assert_close(out[0], model(x[:3], ptr=torch.tensor([0, 3]))[0])
    assert torch.equal(out[1], torch.zeros(12))
    torch.testing.assert_close(out[2], model(x[3:], ptr=torch.tensor([0, 4]))[0])


def test_set_model_reset_parameters_reaches_both_parts():
    model = SetModel(MLP(2, [4], 4), PMA(4))
    before = {name: p.clone() for name, p in model.named_parameters()}
    model.reset_parameters()
    for name, parameter in model.named_parameters():
        assert not torch.equal(before[name], parameter), name
