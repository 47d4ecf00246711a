"""Loading sets in batches."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.utils.data
from torch import Tensor
from torch_geometric.data import Batch, Data, Dataset

from gswe_pyg._checks import positive_int
from gswe_pyg.datasets.set_dataset import SetDataset


class BucketBatchSampler(torch.utils.data.Sampler[list[int]]):
    r"""Puts graphs of similar size into a batch, for models that pad.

    Every epoch the graphs are shuffled, cut into pools of :obj:`pool_size` batches,
    and sorted by size inside each pool; the batches of all pools then come in random
    order. Each graph is in exactly one batch per epoch, and an epoch's batches follow
    from the seed and the number of the epoch alone.

    Args:
        dataset (Dataset or sequence of Data): The graphs.
        batch_size (int): The number of graphs in a batch; the last batch of an epoch
            may be smaller.
        pool_size (int, optional): The number of batches that are sorted together.
            Larger pools save more padding; smaller ones mix the graphs better.
            (default: :obj:`32`)
        seed (int, optional): The seed of the shuffling. (default: :obj:`0`)

    Example:
        >>> from gswe_pyg.datasets import SetCircles
        >>> from gswe_pyg.loader import BucketBatchSampler
        >>> from torch_geometric.loader import DataLoader
        >>> dataset = SetCircles()
        >>> sampler = BucketBatchSampler(dataset, batch_size=32)
        >>> len(DataLoader(dataset, batch_sampler=sampler))
        13
    """

    def __init__(
        self,
        dataset: Dataset | Sequence[Data],
        batch_size: int,
        pool_size: int = 32,
        seed: int = 0,
    ) -> None:
        self.batch_size = positive_int("batch_size", batch_size)
        self.pool_size = positive_int("pool_size", pool_size)
        self.sizes = _sizes(dataset)
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        r"""Sets the number of the next epoch, to resume or repeat one. Otherwise each
        pass over the sampler is the next epoch.

        Args:
            epoch (int): The number of the epoch.
        """
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        # Not `seed + epoch`, which would make the seeds 0 and 1 share epochs.
        state = np.random.SeedSequence([self.seed, self.epoch]).generate_state(1)
        generator = torch.Generator().manual_seed(int(state[0]))
        self.epoch += 1

        order = torch.randperm(len(self.sizes), generator=generator)
        batches = []
        for pool in order.split(self.pool_size * self.batch_size):
            batches += pool[self.sizes[pool].argsort()].split(self.batch_size)
        for i in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[i].tolist()

    def __len__(self) -> int:
        return -(-len(self.sizes) // self.batch_size)


class SetLoader(torch.utils.data.DataLoader):
    r"""A :class:`~torch_geometric.loader.DataLoader` for the data sets of this
    package, which gathers a batch at once instead of graph by graph.

    It yields the same batches. Augmentations are best applied to these, for example
    :obj:`TwoViews(RandomRotation())(batch)`: with a :obj:`transform` in the data set,
    graphs have to be made one by one, and nothing is gained.

    Args:
        dataset (SetDataset): The data set.
        batch_size (int, optional): The number of sets in a batch.
            (default: :obj:`1`)
        shuffle (bool, optional): Whether to shuffle the sets every epoch.
            (default: :obj:`False`)
        **kwargs (optional): Other arguments of :class:`torch.utils.data.DataLoader`.

    Example:
        >>> from gswe_pyg.datasets import SetCircles
        >>> from gswe_pyg.loader import SetLoader
        >>> batch = next(iter(SetLoader(SetCircles(), batch_size=32)))
        >>> batch.num_graphs
        32
    """

    def __init__(
        self,
        dataset: SetDataset,
        batch_size: int = 1,
        shuffle: bool = False,
        **kwargs: Any,
    ) -> None:
        if not hasattr(dataset, "__getitems__"):
            raise ValueError(
                f"'dataset' must be a data set of 'gswe_pyg.datasets' (got "
                f"{type(dataset).__name__}): use 'torch_geometric.loader.DataLoader'"
            )
        kwargs.pop("collate_fn", None)  # as PyG's loader does, for Lightning
        super().__init__(dataset, batch_size, shuffle, collate_fn=_to_batch, **kwargs)


def _to_batch(items: Any) -> Batch | list[Batch]:
    return items.to_batch()


def _sizes(dataset: Dataset | Sequence[Data]) -> Tensor:
    if isinstance(dataset, SetDataset):
        return dataset.set_sizes
    graphs = (data[0] if isinstance(data, (tuple, list)) else data for data in dataset)
    return torch.tensor([graph.num_nodes for graph in graphs])
