import pytest
import torch

from gswe_pyg.aggr.size_groups import SizeGroups, pad

SMALL = [3, 0, 7, 1, 7]
LARGE = [3, 0, 500, 17, 8, 9, 500, 16, 1, 0, 499, 24, 24]


def build(sizes, shuffle=False):
    index = torch.arange(len(sizes)).repeat_interleave(
        torch.tensor(sizes, dtype=torch.long)
    )
    if shuffle:
        generator = torch.Generator().manual_seed(0)
        index = index[torch.randperm(len(index), generator=generator)]
    groups = SizeGroups.build(len(index), index, None, len(sizes), index.device)
    return index, groups


@pytest.mark.parametrize("sizes", [SMALL, LARGE, [0, 0], []])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_set_is_one_row_of_one_block(sizes, shuffle):
    index, groups = build(sizes, shuffle)
    x = torch.arange(1.0, len(index) + 1).unsqueeze(1)  # no zero among the real values
    rows = groups.enter(x)
    torch.testing.assert_close(groups.leave(rows), x)
    found = []
    for block in groups.blocks:
        padded = pad(rows.narrow(0, block.start, block.num_rows), block)
        assert padded.shape == (block.num_sets, block.size, 1)
        found += [[v for v in row.flatten().tolist() if v > 0] for row in padded]
    assert len(found) == len(groups.sets) == sum(size > 0 for size in sizes)
    assert groups.num_sets == len(sizes)
    for number, values in zip(groups.sets.tolist(), found, strict=True):
        assert values == x[index == number].flatten().tolist()


def test_a_small_batch_is_one_block_and_not_moved():
    _, groups = build(SMALL)
    assert groups.perm is None
    assert [block.size for block in groups.blocks] == [7]


def test_a_set_in_a_large_batch_is_padded_by_seven_elements_at_most():
    _, groups = build(LARGE)
    assert [block.size for block in groups.blocks] == [8, 16, 24, 500]
    sizes = torch.tensor(LARGE)[groups.sets].split([b.num_sets for b in groups.blocks])
    for block, members in zip(groups.blocks, sizes, strict=True):
        assert int(members.max()) == block.size
        assert int(members.min()) > block.size - 8
        # Without padding there is nothing to mask.
        assert (block.attention_mask is None) == (members.min() == members.max())


def test_ptr_describes_the_same_sets_as_index():
    for sizes in (SMALL, LARGE):
        _, by_index = build(sizes)
        ptr = torch.tensor([0, *torch.tensor(sizes).cumsum(0).tolist()])
        by_ptr = SizeGroups.build(sum(sizes), None, ptr, None, ptr.device)
        assert torch.equal(by_ptr.sets, by_index.sets)
        if by_index.perm is None:
            assert by_ptr.perm is None
        else:
            assert torch.equal(by_ptr.perm, by_index.perm)
