"""Ragged sets as a few dense blocks, for operations that look at a whole set."""

from bisect import bisect_right
from typing import NamedTuple

import torch
from torch import Tensor


class Block(NamedTuple):
    """Consecutive rows of the grouped order: some sets of nearly one size."""

    start: int  # first row
    num_rows: int
    num_sets: int
    size: int  # of the largest set in the block
    slots: Tensor | None  # of each row in the padded block; None without padding
    attention_mask: Tensor | None  # [num_sets, 1, 1, size], true for real elements


class SizeGroups(NamedTuple):
    """A permutation of the rows of a batch after which sets lie in blocks.

    Element-wise layers do not care about the order of the rows. A backbone
    therefore enters the grouped order once, stays in it over all its layers, and
    leaves it at the end.
    """

    perm: Tensor
    inverse: Tensor
    blocks: list[Block]
    num_sets: int
    sets: Tensor  # the sets in the order of the blocks, without the empty ones

    @classmethod
    def build(
        cls,
        num_rows: int,
        index: Tensor | None,
        ptr: Tensor | None,
        dim_size: int | None,
        device: torch.device,
    ) -> "SizeGroups":
        """Groups the sets that ``index`` or ``ptr`` describe, one set if neither."""
        index, sizes = _memberships(num_rows, index, ptr, dim_size, device)
        grouped_sizes, by_size = torch.sort(sizes, stable=True)
        rank = torch.empty_like(by_size)
        rank[by_size] = torch.arange(len(by_size), device=device)
        perm = torch.sort(rank[index], stable=True).indices
        inverse = torch.empty_like(perm)
        inverse[perm] = torch.arange(num_rows, device=device)

        # Fewer blocks mean more padding, more blocks more launches: a small batch
        # is one block, a larger one has a block for each multiple of eight.
        sizes_here = grouped_sizes.tolist()
        largest = max(sizes_here, default=0)
        step = largest if len(sizes_here) * largest <= 4096 else 8
        blocks: list[Block] = []
        begin, start = sizes_here.count(0), 0
        while begin < len(sizes_here):
            limit = -(-sizes_here[begin] // step) * step
            end = bisect_right(sizes_here, limit, begin)
            blocks.append(_block(start, grouped_sizes[begin:end]))
            start += blocks[-1].num_rows
            begin = end
        sets = by_size[sizes_here.count(0) :]
        return cls(perm, inverse, blocks, len(sizes_here), sets)


def pad(rows: Tensor, block: Block) -> Tensor:
    """The rows of a block as ``[num_sets, size, channels]``, zero where padded."""
    if block.slots is not None:
        padded = rows.new_zeros(block.num_sets * block.size, rows.size(1))
        rows = padded.index_copy(0, block.slots, rows)
    return rows.view(block.num_sets, block.size, -1)


def _block(start: int, sizes: Tensor) -> Block:
    smallest, largest = int(sizes[0]), int(sizes[-1])
    if smallest == largest:
        return Block(start, len(sizes) * largest, len(sizes), largest, None, None)
    mask = torch.arange(largest, device=sizes.device) < sizes.unsqueeze(1)
    slots = mask.flatten().nonzero().squeeze(1)
    attention_mask = mask[:, None, None, :]
    return Block(start, len(slots), len(sizes), largest, slots, attention_mask)


def _memberships(
    num_rows: int,
    index: Tensor | None,
    ptr: Tensor | None,
    dim_size: int | None,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """The set of each row, and the size of each set."""
    if index is not None and index.numel() != num_rows:
        raise ValueError(
            f"'index' must name the set of every element "
            f"(got {index.numel()} entries for {num_rows} elements)"
        )
    if ptr is not None:
        sizes = ptr.diff()
        if int(ptr[0]) != 0 or int(ptr[-1]) != num_rows or bool((sizes < 0).any()):
            raise ValueError(
                f"'ptr' must rise from 0 to the number of elements, {num_rows} "
                f"(got {ptr.tolist()[:8]}{'...' if ptr.numel() > 8 else ''})"
            )
        sets = torch.arange(len(sizes), device=device)
        return sets.repeat_interleave(sizes, output_size=num_rows), sizes
    if index is None:
        index = torch.zeros(num_rows, dtype=torch.long, device=device)
    needed = int(index.max()) + 1 if num_rows > 0 else 0
    if dim_size is not None and dim_size < needed:
        raise ValueError(
            f"'dim_size' must be at least {needed}, the number of sets that 'index' "
            f"names (got {dim_size})"
        )
    return index, torch.bincount(index, minlength=dim_size or 0)
