"""Ragged sets as a few dense blocks, for operations that look at a whole set."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

#: Rows, padded ones included, up to which a batch is not worth being divided.
_ONE_BLOCK = 4096


class Block(NamedTuple):
    """Consecutive rows of the grouped order: some sets of nearly one size."""

    start: int  # first row
    num_rows: int
    num_sets: int
    size: int  # of the largest set in the block
    slots: Tensor | None  # of each row in the padded block; None without padding
    attention_mask: Tensor | None  # [num_sets, 1, 1, size], true for real elements


class SizeGroups(NamedTuple):
    """An order of the rows of a batch in which sets lie in blocks.

    Element-wise layers do not care about the order of the rows. A backbone
    therefore enters the grouped order once, stays in it over all its layers, and
    leaves it at the end.
    """

    perm: Tensor | None  # None if the rows are in this order already
    blocks: list[Block]
    num_sets: int
    sets: Tensor  # the sets in the order of the blocks, without the empty ones
    sizes: Tensor  # of these sets

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
        if index is None and ptr is None:
            ptr = torch.tensor([0, num_rows], device=device)
        sizes = _sizes(num_rows, index, ptr, dim_size)
        num_sets, largest = len(sizes), int(sizes.max()) if len(sizes) > 0 else 0
        # Fewer blocks mean more padding, more blocks more launches: a small batch
        # is one block as it is, a larger one has a block for each multiple of eight.
        if num_sets * largest <= _ONE_BLOCK:
            sets, step = sizes.nonzero().squeeze(1), max(largest, 1)
            perm = None if index is None or ptr is not None else _sorting(index)
        else:
            sets = torch.sort(sizes, stable=True).indices
            sets, step = sets[int((sizes == 0).sum()) :], 8
            places = _positions(sets, num_sets)
            if ptr is not None:
                perm = _sorting(places.repeat_interleave(sizes, output_size=num_rows))
            else:
                perm = _sorting(places[index])
        sizes = sizes[sets]
        return cls(perm, _blocks(sizes, step), num_sets, sets, sizes)

    def enter(self, x: Tensor) -> Tensor:
        """Brings rows into this order."""
        return x if self.perm is None else x[self.perm]

    def split(self, x: Tensor) -> Iterable[tuple[Block, Tensor]]:
        """The blocks with their rows, which must be in this order."""
        # Not one slice for each: their gradients would be as large as `x` each.
        rows = x.split([block.num_rows for block in self.blocks])
        return zip(self.blocks, rows, strict=True)

    def leave(self, x: Tensor) -> Tensor:
        """Brings rows back into the order they had."""
        return x if self.perm is None else x[_positions(self.perm, len(x))]


def pad(rows: Tensor, block: Block) -> Tensor:
    """The rows of a block as ``[num_sets, size, channels]``, zero where padded."""
    if block.slots is not None:
        padded = rows.new_zeros(block.num_sets * block.size, rows.size(1))
        rows = padded.index_copy(0, block.slots, rows)
    return rows.view(block.num_sets, block.size, -1)


def _positions(order: Tensor, size: int) -> Tensor:
    """Where each of so many entries stands in an order of some of them."""
    positions = order.new_zeros(size)
    positions[order] = torch.arange(len(order), device=order.device)
    return positions


def _blocks(sizes: Tensor, step: int) -> list[Block]:
    """Cuts sets into blocks wherever their size passes a multiple of ``step``."""
    multiples = (sizes + step - 1).div(step, rounding_mode="floor")
    counts = torch.unique_consecutive(multiples, return_counts=True)[1].tolist()
    blocks: list[Block] = []
    start = 0
    for part in sizes.split(counts):
        smallest, largest = (int(bound) for bound in part.aminmax())
        slots = attention_mask = None
        if smallest < largest:
            mask = torch.arange(largest, device=part.device) < part.unsqueeze(1)
            slots = mask.flatten().nonzero().squeeze(1)
            attention_mask = mask[:, None, None, :]
        num_rows = len(part) * largest if slots is None else len(slots)
        blocks.append(Block(start, num_rows, len(part), largest, slots, attention_mask))
        start += num_rows
    return blocks


def _sorting(index: Tensor) -> Tensor | None:
    """The stable order that sorts an index, none if it is sorted."""
    if bool((index[1:] >= index[:-1]).all()):
        return None
    return torch.sort(index, stable=True).indices


def _sizes(
    num_rows: int, index: Tensor | None, ptr: Tensor | None, dim_size: int | None
) -> Tensor:
    """The number of elements of each set."""
    if index is not None and index.numel() != num_rows:
        raise ValueError(
            f"'index' must name the set of every element "
            f"(got {index.numel()} entries for {num_rows} elements)"
        )
    if index is None or ptr is not None:
        assert ptr is not None
        sizes = ptr.diff()
        if int(ptr[0]) != 0 or int(ptr[-1]) != num_rows or bool((sizes < 0).any()):
            raise ValueError(
                f"'ptr' must rise from 0 to the number of elements, {num_rows} "
                f"(got {ptr.tolist()[:8]}{'...' if ptr.numel() > 8 else ''})"
            )
        return sizes
    needed = int(index.max()) + 1 if num_rows > 0 else 0
    if dim_size is not None and dim_size < needed:
        raise ValueError(
            f"'dim_size' must be at least {needed}, the number of sets that 'index' "
            f"names (got {dim_size})"
        )
    return torch.bincount(index, minlength=dim_size or 0)
