import logging
import os
import os.path as osp
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.data.collate import collate
from torch_geometric.data.separate import separate
from torch_geometric.loader.dataloader import Collater

from gswe_pyg.datasets.processed_file import read_processed, write_processed

logger = logging.getLogger(__name__)


class SetDataset(InMemoryDataset):
    r"""The base class of data sets whose graphs are sets: nodes, and no edges unless
    a transform adds them.

    It is an :class:`~torch_geometric.data.InMemoryDataset` with four differences:

    * :meth:`get_batch` gathers a whole batch from the stored tensors at once,
      without an object per graph; :class:`gswe_pyg.loader.SetLoader` uses it.
    * Graphs are not cached, so that an epoch over 60,000 sets does not leave 60,000
      objects behind.
    * The processed file is written in one step, and read without unpickling
      anything but tensors and plain containers.
    * Raw files may lie in :obj:`root/raw` or in :obj:`root` itself.

    Args:
        root (str, optional): The folder of the data set. (default: :obj:`None`)
        transform (callable, optional): A transform applied on every access.
            (default: :obj:`None`)
        pre_transform (callable, optional): A transform applied once, before the
            sets are stored. (default: :obj:`None`)
        pre_filter (callable, optional): A function that tells which sets to keep,
            applied once before :obj:`pre_transform`. (default: :obj:`None`)
        force_reload (bool, optional): Whether to process the raw files again.
            (default: :obj:`False`)

    Example:
        >>> from gswe_pyg.datasets import SetCircles
        >>> dataset = SetCircles(num_sets=10)
        >>> dataset.get_batch([3, 1, 4]).num_graphs
        3
    """

    _stored = frozenset({"data", "slices", "pre_transform", "pre_filter"})

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        pre_filter: Callable | None = None,
        force_reload: bool = False,
    ) -> None:
        super().__init__(
            None if root is None else os.fspath(root),
            transform,
            pre_transform,
            pre_filter,
            force_reload=force_reload,
        )

    @property
    def raw_dir(self) -> str:
        files = self.raw_file_names
        if all(osp.exists(osp.join(self.root, file)) for file in files):
            return self.root
        return osp.join(self.root, "raw")

    @property
    def num_node_features(self) -> int:
        r"""The number of columns of :obj:`x`, or of :obj:`pos` where the sets have
        coordinates only."""
        data = self[0]
        data = data[0] if isinstance(data, (tuple, list)) else data
        if data.num_node_features == 0 and data.pos is not None:
            return data.pos.size(-1)
        return data.num_node_features

    @property
    def num_classes(self) -> int:
        r"""The number of classes. In contrast to PyG, a :obj:`transform` is not run
        over the whole data set to find out."""
        return self._infer_num_classes(self._data.y)

    @property
    def set_sizes(self) -> Tensor:
        r"""The number of elements of every set, as a tensor of shape
        :math:`[|\mathrm{dataset}|]`, found without touching the elements."""
        sizes = self._node_slices.diff()
        return sizes if self._indices is None else sizes[list(self._indices)]

    @property
    def _node_slices(self) -> Tensor:
        return next(self.slices[key] for key in ("x", "pos") if key in self.slices)

    def len(self) -> int:
        return self.slices["y"].numel() - 1

    def get(self, idx: int) -> Data:
        return separate(Data, self._data, idx, self.slices, decrement=False)

    def get_batch(self, indices: Sequence[int] | Tensor) -> Batch | list[Batch]:
        r"""Returns what PyG's :class:`~torch_geometric.loader.DataLoader` would
        return for the sets at :obj:`indices`, several times faster when there is no
        :obj:`transform`.

        Args:
            indices (sequence of int or torch.Tensor): Which sets, in which order.
        """
        chosen = torch.as_tensor(indices, dtype=torch.long)
        if self.transform is not None or not self._is_flat():
            return Collater(self)([self[int(i)] for i in chosen])
        size = len(self)
        if chosen.numel() == 0 or chosen.min() < -size or chosen.max() >= size:
            raise IndexError(
                f"'indices' must hold at least one number between {-size} and "
                f"{size - 1} (got {chosen.tolist()})"
            )
        chosen = chosen % size
        if self._indices is not None:
            chosen = torch.tensor([self._indices[i] for i in chosen.tolist()])
        return self._gather(chosen)

    def __getitems__(self, indices: list[int]) -> "SetItems":
        # torch's DataLoader asks for a batch at once where it can.
        return SetItems(self, indices)

    def _is_flat(self) -> bool:
        """Whether every attribute can be batched by picking rows."""
        return all(
            isinstance(value, Tensor)
            and self._data.__cat_dim__(key, value) == 0
            and isinstance(increment := self._data.__inc__(key, value), int)
            and increment == 0
            for key, value in self._data.to_dict().items()
        )

    def _gather(self, chosen: Tensor) -> Batch:
        batch = _new_batch()
        batch._num_graphs = chosen.numel()
        batch._slice_dict, batch._inc_dict = {}, {}
        no_increment = torch.zeros_like(chosen)
        found: dict[int, Rows] = {}
        for key, value in self._data.to_dict().items():
            slices = self.slices[key]
            rows = found.get(id(slices)) or Rows.of(slices, chosen)
            found[id(slices)] = rows
            batch[key] = value.index_select(0, rows.index)
            batch._slice_dict[key] = rows.ptr
            batch._inc_dict[key] = no_increment
        nodes = found[id(self._node_slices)]
        batch.batch, batch.ptr = nodes.owner, nodes.ptr
        return batch

    def _download(self) -> None:
        processed = all(osp.exists(path) for path in self.processed_paths)
        raw = all(osp.exists(path) for path in self.raw_paths)
        if not raw and (self.force_reload or not processed):
            self.download()

    def _process(self) -> None:
        # PyG keeps the names of `pre_transform` and `pre_filter` in two more pickles
        # and opens them without protection; ours are inside the processed file.
        if self.force_reload or not all(map(osp.exists, self.processed_paths)):
            logger.info("processing the raw files of %s", self.root)
            os.makedirs(self.processed_dir, exist_ok=True)
            self.process()

    def load(self, path: str, data_cls: type[Data] = Data) -> None:
        content = read_processed(path, self._stored)
        for name in ("pre_transform", "pre_filter"):
            if content[name] != _name_of(getattr(self, name)):
                warnings.warn(
                    f"'{path}' was made with {name}={content[name]}, not with "
                    f"{_name_of(getattr(self, name))}; pass 'force_reload=True' to "
                    f"make it again",
                    stacklevel=3,
                )
        self.data = data_cls.from_dict(content["data"])
        self.slices = content["slices"]
        self._load_extra(content)

    def _load_extra(self, content: dict[str, Any]) -> None:
        """Takes what else a subclass stored."""

    def _write(self, path: str, data: Data, slices: dict, **extra: Any) -> None:
        content = {
            "data": data.to_dict(),
            "slices": slices,
            "pre_transform": _name_of(self.pre_transform),
            "pre_filter": _name_of(self.pre_filter),
        }
        write_processed(content | extra, path)

    def _prepare(self, data: Data, slices: dict[str, Tensor]) -> tuple[Data, dict]:
        """Runs ``pre_filter`` and ``pre_transform`` over collated sets."""
        if self.pre_filter is None and self.pre_transform is None:
            return data, slices
        graphs = (
            separate(Data, data, i, slices, decrement=False)
            for i in range(slices["y"].numel() - 1)
        )
        return collate_sets([graph for _, graph in self._prepared(graphs)])

    def _prepared(self, graphs: Iterable[Data]) -> Iterator[tuple[int, Data]]:
        for i, graph in enumerate(graphs):
            if self.pre_filter is None or self.pre_filter(graph):
                prepare = self.pre_transform
                yield i, graph if prepare is None else prepare(graph)


class SetItems(Sequence):
    """Some sets of a data set: graphs when iterated, a batch when asked for one."""

    def __init__(self, dataset: SetDataset, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: Any) -> Any:
        return self.dataset[self.indices[position]]

    def to_batch(self) -> Batch | list[Batch]:
        return self.dataset.get_batch(self.indices)


def collate_sets(graphs: list[Data]) -> tuple[Data, dict]:
    """Collates graphs into the storage of an in-memory data set, even a single one."""
    if not graphs:
        raise ValueError("no set is left: 'pre_filter' rejected all of them")
    data, slices, _ = collate(
        graphs[0].__class__, graphs, increment=False, add_batch=False
    )
    return data, slices


@dataclass
class Rows:
    """The stored rows of some sets, one set after the other."""

    index: Tensor
    owner: Tensor
    ptr: Tensor

    @classmethod
    def of(cls, slices: Tensor, chosen: Tensor) -> "Rows":
        start = slices[chosen]
        size = slices[chosen + 1] - start
        ptr = torch.cat([size.new_zeros(1), size.cumsum(0)])
        owner = torch.arange(chosen.numel()).repeat_interleave(size)
        index = torch.arange(owner.numel()) + (start - ptr[:-1])[owner]
        return cls(index, owner, ptr)


@cache
def _batch_class() -> type:
    return type(Batch(_base_cls=Data))


def _new_batch() -> Batch:
    # Calling `Batch()` inspects signatures, which takes longer than the gathering.
    batch: Any = object.__new__(_batch_class())
    batch.__init__()
    return batch


def _name_of(function: Callable | None) -> str:
    # Addresses differ from run to run and say nothing.
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(function))
