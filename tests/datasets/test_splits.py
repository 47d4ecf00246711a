import pytest
import torch

from gswe_pyg.datasets import stratified_folds


@pytest.mark.parametrize("num_folds", [2, 5, 10])
def test_stratified_folds(num_folds):
    y = torch.tensor([0] * 33 + [1] * 14 + [2] * 53)[torch.randperm(100)]
    folds = stratified_folds(y, num_folds)
    assert len(folds) == num_folds
    assert torch.equal(
        torch.cat([test for _, test in folds]).sort()[0], torch.arange(100)
    )
    for train, test in folds:
        assert torch.equal(torch.cat([train, test]).sort()[0], torch.arange(100))
        assert abs(len(test) - 100 / num_folds) < 1
        counts = y[test].bincount(minlength=3)
        assert ((counts - y.bincount() / num_folds).abs() < 1).all()


def test_stratified_folds_follow_the_seed_alone():
    y = torch.arange(40) % 4
    torch.manual_seed(1)
    first = stratified_folds(y, seed=7)
    state = torch.get_rng_state()
    second = stratified_folds(y, seed=7)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(first, second, strict=True))
    assert not torch.equal(first[0][1], stratified_folds(y, seed=8)[0][1])


@pytest.mark.parametrize("num_folds", [1, 5])
def test_stratified_folds_number(num_folds):
    with pytest.raises(ValueError, match=r"'num_folds' must be .* 4 \(got"):
        stratified_folds(torch.tensor([0, 1, 0, 1]), num_folds)
