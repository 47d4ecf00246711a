import copy
import math

import pytest
import torch

from gswe_pyg import GSWEAggregation
from gswe_pyg.ops import memory


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int32, torch.float64])
@pytest.mark.parametrize("shape", [(), (0, 3), (5, 7)])
def test_it_is_as_any_other_tensor(monkeypatch, shape, dtype):
    monkeypatch.setattr(memory, "_LARGE", 0)
    x = memory.empty(shape, dtype).fill_(3)
    assert (x.shape, x.dtype, x.device.type) == (shape, dtype, "cpu")
    assert x.is_contiguous()
    assert x.data_ptr() % 64 == 0
    assert copy.deepcopy(x).share_memory_().sum() == 3 * math.prod(shape)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, {"heads": 2, "extremes": True}])
def test_results_do_not_depend_on_it(ragged, monkeypatch, options, weighted):
    x, index = ragged(sizes=[3, 0, 8, 1])
    index = index[torch.randperm(len(index))]
    readout = GSWEAggregation(x.shape[1], num_points=5, **options)
    weight = torch.rand(len(x)) if weighted else None

    def run():
        leaf = x.clone().requires_grad_()
        out = readout(leaf, index, weight=weight)
        return [out, *torch.autograd.grad(out.sum(), [leaf, *readout.parameters()])]

    expected = run()
    monkeypatch.setattr(memory, "_LARGE", 0)
    assert all(map(torch.equal, run(), expected))
