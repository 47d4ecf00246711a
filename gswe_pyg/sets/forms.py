"""The forms that sets come in, each read as elements, boundaries and weights.

Nothing is copied that need not be: arrays, tensors and Arrow columns stay where they
are, and the sets of a list are put side by side only when they are read.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor
from torch_geometric.data import Batch, Data, Dataset, InMemoryDataset

from gswe_pyg._checks import one_of

_FORMS = (
    "a list of arrays [n, d], (x, ptr), (x, index), a dense array [B, N, d], (dense "
    "array, mask), a PyG batch or data set, a nested tensor, an Arrow or polars column "
    "of lists, or a pandas frame"
)


class Rows:
    """The rows of several arrays, as if they were one."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays = arrays
        self.bounds = np.cumsum([0, *map(len, arrays)])

    def read(self, start: int, stop: int) -> np.ndarray:
        """A view; only rows that lie in several arrays are copied."""
        if start == stop:
            return self.arrays[0][:0]
        first = int(np.searchsorted(self.bounds, start, side="right")) - 1
        last = int(np.searchsorted(self.bounds, stop, side="left")) - 1
        parts = list(self.arrays[first : last + 1])
        parts[-1] = parts[-1][: stop - self.bounds[last]]
        parts[0] = parts[0][start - self.bounds[first] :]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Elements(NamedTuple):
    """The elements of some of the sets, side by side."""

    x: np.ndarray  # [N, d]
    ptr: np.ndarray  # [B + 1]
    weight: np.ndarray | None  # [N]


@dataclass(frozen=True)
class Sets:
    """All of the sets, to be read in parts."""

    x: Rows
    ptr: np.ndarray  # [B + 1], from 0 to the number of elements
    weight: Rows | None = None
    labels: Any = None  # of the sets, if they are those of a pandas index

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def num_features(self) -> int | None:
        """The width of the elements; unknown if all sets are empty lists."""
        widths = (array.shape[1] for array in self.x.arrays if array.ndim == 2)
        return next(widths, None)

    def read(self, start: int, stop: int) -> Elements:
        ptr = self.ptr[start : stop + 1]
        rows = int(ptr[0]), int(ptr[-1])
        weight = None if self.weight is None else self.weight.read(*rows)
        return Elements(self.x.read(*rows), ptr - ptr[0], weight)

    def take(self, positions: np.ndarray) -> "Sets":
        parts = [self.read(i, i + 1) for i in positions]
        weights = [part.weight for part in parts if part.weight is not None]
        weight = None if self.weight is None else Rows(weights)
        ptr = _boundaries([len(part.x) for part in parts])
        return Sets(Rows([part.x for part in parts]), ptr, weight)


def as_sets(sets: Any, weight: Any = None) -> Sets:
    """Reads sets in any form. The first axis always counts the sets."""
    if isinstance(sets, (Batch, Data, Dataset)):
        return _from_pyg(sets, weight)
    if _is_of(sets, "pandas", "DataFrame"):
        return _from_frame(sets, weight)
    chunks = _arrow_chunks(sets)
    if chunks is not None:
        return _from_arrow(chunks, weight)
    if isinstance(sets, Tensor) and sets.is_nested:
        return _from_nested(sets, weight)
    if isinstance(sets, tuple) and len(sets) == 2:
        marks = _one_array(sets[1])
        if marks is not None and marks.dtype.kind == "b":
            return _from_dense(_numbers(sets[0]), weight, marks)
        if marks is not None and marks.ndim == 1 and marks.dtype.kind in "iu":
            return _from_elements(_numbers(sets[0]), marks, weight)
    if issparse(sets):
        raise TypeError(f"'X' must not be a sparse matrix: pass {_FORMS}")
    array = _one_array(sets)
    if array is not None:
        return _from_dense(_numbers(array), weight)
    if isinstance(sets, Iterable) and not isinstance(sets, (str, bytes, dict)):
        return _from_list(list(sets), weight)
    raise TypeError(f"'X' must be {_FORMS} (got {type(sets).__name__})")


# One function for each form ###########################################################


def _from_list(sets: list, weight: Any) -> Sets:
    if sets and all(isinstance(data, Data) for data in sets):
        return _from_graphs(sets, weight)
    arrays = [_numbers(array, f"set {i} of 'X'") for i, array in enumerate(sets)]
    width = next((array.shape[1] for array in arrays if array.ndim == 2), None)
    for position, array in enumerate(arrays):
        if array.shape == (0,):  # [], which is silent about its width
            arrays[position] = array if width is None else array.reshape(0, width)
        elif array.ndim != 2:
            raise ValueError(
                f"Each set of 'X' must be of shape [number of elements, number of "
                f"features] (got {list(array.shape)} for set {position}): pass "
                f"'array.reshape(-1, 1)' if its elements are numbers, '[array]' if "
                f"'X' is a single set"
            )
        elif array.shape[1] != width:
            raise _wrong_width(position, array.shape[1], width)
    ptr = _boundaries([len(array) for array in arrays])
    return Sets(Rows(arrays), ptr, _weight_rows(weight, ptr))


def _from_elements(x: np.ndarray, marks: np.ndarray, weight: Any) -> Sets:
    """Elements with boundaries, or with the set that each of them belongs to."""
    if x.ndim != 2:
        raise ValueError(
            f"The elements of 'X' must be of shape [number of elements, number of "
            f"features] (got {list(x.shape)})"
        )
    marks = marks.astype(np.int64, copy=False)
    if len(marks) and marks[0] == 0 and marks[-1] == len(x) and _is_sorted(marks):
        return Sets(Rows([x]), marks, _weight_rows(weight, marks))
    if len(marks) != len(x):
        ends = f", {marks[0]} to {marks[-1]}" if len(marks) else ""
        raise ValueError(
            f"The second part of 'X' must be boundaries that increase from 0 to the "
            f"number of elements, {len(x)}, or the set of each element (got "
            f"{len(marks)} numbers{ends})"
        )
    if len(marks) and marks.min() < 0:
        raise ValueError(
            f"The set of an element must not be negative (got {marks.min()})"
        )
    return _from_index(x, marks, weight)


def _from_index(
    x: np.ndarray, index: np.ndarray, weight: Any, labels: Any = None
) -> Sets:
    ptr = _boundaries(np.bincount(index))
    rows = _weight_rows(weight, ptr)
    if not _is_sorted(index):
        order = np.argsort(index, kind="stable")
        x = x[order]
        rows = None if rows is None else Rows([rows.read(0, len(x))[order]])
    return Sets(Rows([x]), ptr, rows, labels)


def _from_dense(x: np.ndarray, weight: Any, mask: np.ndarray | None = None) -> Sets:
    """``[B, N, d]`` or, for sets of one element, ``[B, d]``."""
    if x.ndim == 2 and mask is None:
        ptr = np.arange(len(x) + 1)
        return Sets(Rows([x]), ptr, _weight_rows(weight, ptr))
    if x.ndim != 3:
        raise ValueError(
            f"'X' must be {_FORMS} (got an array of shape {list(x.shape)}). Reshape "
            f"your data: 'X.reshape(-1, 1)' if each set is a single number"
        )
    weight = None if weight is None else _numbers(weight, "'weight'")
    for name, array in (("The mask of 'X'", mask), ("'weight'", weight)):
        if array is not None and array.shape != x.shape[:2]:
            raise ValueError(
                f"{name} must be of shape {list(x.shape[:2])} (got {list(array.shape)})"
            )
    if mask is None or mask.all():
        ptr = np.arange(len(x) + 1) * x.shape[1]
        rows = None if weight is None else Rows([weight.reshape(-1)])
        return Sets(Rows([x.reshape(-1, x.shape[2])]), ptr, rows)
    rows = None if weight is None else Rows([weight[mask]])
    return Sets(Rows([x[mask]]), _boundaries(mask.sum(1)), rows)


def _from_nested(sets: Any, weight: Any) -> Sets:
    if sets.layout != torch.jagged or sets.lengths() is not None:
        return _from_list(list(sets.unbind()), weight)
    return _from_elements(_numbers(sets.values()), _numbers(sets.offsets()), weight)


def _from_pyg(sets: Batch | Data | Dataset, weight: Any) -> Sets:
    """``x``, or ``pos`` where there is none, and ``weight`` where there is one."""
    if isinstance(sets, Batch):
        weight = _graph_weight(sets, weight)
        return _from_elements(_features(sets), _numbers(sets.ptr), weight)
    if isinstance(sets, Data):
        raise TypeError("'X' must be several graphs (got one): pass '[data]'")
    is_stored = isinstance(sets, InMemoryDataset) and sets.slices is not None
    if not is_stored or sets.transform is not None:
        return _from_graphs(list(sets), weight)
    stored = sets._data
    ptr = sets.slices["x" if stored.get("x") is not None else "pos"]
    weight = _graph_weight(stored, weight)
    found = _from_elements(_features(stored), _numbers(ptr), weight)
    # A part of a data set holds all of it.
    return found if sets._indices is None else found.take(np.array(sets._indices))


def _from_graphs(graphs: list[Data], weight: Any) -> Sets:
    if weight is None or isinstance(weight, str):
        weights = [_graph_weight(data, weight) for data in graphs]
        weight = None if any(w is None for w in weights) else weights
    return _from_list([_features(data) for data in graphs], weight)


def _features(data: Data) -> np.ndarray:
    x = data.get("x") if data.get("x") is not None else data.get("pos")
    if x is None:
        raise ValueError(f"The graphs of 'X' must have 'x' or 'pos' (got {data})")
    return _numbers(x)


def _graph_weight(data: Data, weight: Any) -> Any:
    if weight is None:
        return data.get("weight")
    if isinstance(weight, str):
        return data[one_of("weight", weight, data.keys())]
    return weight


def _from_frame(frame: Any, weight: Any) -> Sets:
    """Rows that share a label of the index are a set, in order of appearance."""
    if isinstance(weight, str):
        one_of("weight", weight, list(frame.columns))
        frame, weight = frame.drop(columns=weight), frame[weight]
    for name, column in frame.items():
        if isinstance(first := column.iloc[0] if len(column) else 0, str):
            raise ValueError(
                f"could not convert string to float: {first!r} in column {name!r} of "
                f"'X'. Use 'frame.set_index({name!r})' if it names the set of each row"
            )
    if frame.index.is_unique:
        return _from_dense(_numbers(frame), weight)
    index, labels = frame.index.factorize(use_na_sentinel=False)
    labels = labels.set_names(frame.index.names)
    return _from_index(_numbers(frame), index, weight, labels)


def _from_arrow(chunks: list, weight: Any) -> Sets:
    """A column of lists of lists, whose offsets are boundaries already."""
    arrays: list[np.ndarray] = []
    sizes: list[np.ndarray] = []
    width = None
    for chunk in chunks:
        position = sum(map(len, sizes))
        elements, ptr = _split(chunk, position)
        x = _read_elements(elements, ptr, position, width)
        width = x.shape[1] if x.ndim == 2 else width
        arrays.append(x)
        sizes.append(np.diff(ptr))
    if width is not None:
        arrays = [x if x.ndim == 2 else x.reshape(0, width) for x in arrays]
    ptr = _boundaries(np.concatenate([[], *sizes]).astype(np.int64))
    return Sets(Rows(arrays), ptr, _weight_rows(weight, ptr))


def _split(lists: Any, position: int) -> tuple[Any, np.ndarray]:
    """The items of Arrow lists, without a copy, and the boundaries of the lists."""
    import pyarrow.types as types

    if lists.null_count:
        first = position + lists.is_null().index(True).as_py()
        raise ValueError(f"Set {first} of 'X' is null: drop it, or pass an empty list")
    if types.is_fixed_size_list(lists.type):
        return lists.flatten(), np.arange(len(lists) + 1) * lists.type.list_size
    if not (types.is_list(lists.type) or types.is_large_list(lists.type)):
        raise TypeError(
            f"A column must have the type list<fixed_size_list<float>[d]> or "
            f"list<list<float>> for elements, list<float> for weights (got "
            f"{lists.type} at some level)"
        )
    if len(lists) == 0:
        return lists.values[:0], np.zeros(1, dtype=np.int64)
    offsets = lists.offsets.to_numpy().astype(np.int64, copy=False)
    return lists.values[offsets[0] : offsets[-1]], offsets - offsets[0]


def _read_elements(
    elements: Any, ptr: np.ndarray, position: int, width: int | None
) -> np.ndarray:
    def set_of(element: int) -> int:
        return position + int(np.searchsorted(ptr, element, side="right")) - 1

    if elements.null_count:
        first = set_of(elements.is_null().index(True).as_py())
        raise ValueError(f"Set {first} of 'X' has an element that is null: remove it")
    values, bounds = _split(elements, position)
    sizes = np.diff(bounds)
    if len(sizes) == 0 and not hasattr(elements.type, "list_size"):
        return np.empty(0)  # nobody knows the width
    width = int(sizes[0]) if width is None else width
    if (sizes != width).any():
        first = int((sizes != width).argmax())
        raise _wrong_width(set_of(first), sizes[first], width)
    if values.null_count:
        first = set_of(values.is_null().index(True).as_py() // width)
        raise ValueError(f"Set {first} of 'X' has a value that is null: fill it")
    return _numbers(values.to_numpy(zero_copy_only=False)).reshape(-1, width)


# What they share ######################################################################


def _weight_rows(weight: Any, ptr: np.ndarray) -> Rows | None:
    """Masses set by set, or of all elements in the order in which these were given."""
    if weight is None:
        return None
    chunks = _arrow_chunks(weight)
    if chunks is not None and hasattr(chunks[0].type, "value_type"):
        parts = [_split(chunk, 0) for chunk in chunks]
        arrays = [items.to_numpy(zero_copy_only=False) for items, _ in parts]
        sizes = np.concatenate([np.diff(bounds) for _, bounds in parts])
    elif isinstance(weight, Tensor) and weight.is_nested:
        return _weight_rows(list(weight.unbind()), ptr)
    elif isinstance(weight, list) and weight and np.ndim(weight[0]) > 0:
        arrays = [_numbers(w, f"set {i} of 'weight'") for i, w in enumerate(weight)]
        sizes = np.array([len(array) for array in arrays])
    else:
        arrays, sizes = [_numbers(weight, "'weight'")], None
    rows = Rows([_numbers(array, "'weight'").reshape(-1) for array in arrays])
    if sizes is not None and len(sizes) != len(ptr) - 1:
        raise ValueError(
            f"'weight' must have the masses of {len(ptr) - 1} sets (got {len(sizes)})"
        )
    if sizes is not None and (sizes != np.diff(ptr)).any():
        first = int((sizes != np.diff(ptr)).argmax())
        raise ValueError(
            f"'weight' must have one mass for each element (got {sizes[first]} for "
            f"set {first}, which has {np.diff(ptr)[first]} elements)"
        )
    if rows.bounds[-1] != ptr[-1]:
        raise ValueError(
            f"'weight' must have one mass for each of the {ptr[-1]} elements (got "
            f"{rows.bounds[-1]})"
        )
    return rows


def _numbers(values: Any, name: str = "'X'") -> np.ndarray:
    """Real numbers as an array; arrays and tensors of them are not copied."""
    if isinstance(values, Tensor):
        is_known = values.dtype != torch.bfloat16  # to numpy
        values = (values if is_known else values.float()).numpy(force=True)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"Cannot read {name} as an array: {error}") from error
    if array.dtype.kind == "O":
        array = array.astype(np.float64)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported (in {name})")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers (got {array.dtype})")
    return array


def _one_array(values: Any) -> np.ndarray | None:
    """An array, unless the values are something else, such as a list of arrays."""
    if isinstance(values, Tensor):
        return _numbers(values)
    if not hasattr(values, "__array__"):
        return None
    array = np.asarray(values)
    return None if array.dtype.kind == "O" and array.ndim < 2 else array


def _arrow_chunks(values: Any) -> list | None:
    """The arrays of an Arrow column, or of one that lies in memory as Arrow does."""
    if _is_of(values, "polars", "Series"):
        values = values.to_arrow()
    elif _is_of(values, "pandas", "Series") and hasattr(values.dtype, "pyarrow_dtype"):
        values = values.array.__arrow_array__()
    is_table = any(
        _is_of(values, *name)
        for name in (
            ("polars", "DataFrame"),
            ("pyarrow", "Table"),
            ("pyarrow", "RecordBatch"),
        )
    )
    if is_table:
        raise TypeError("'X' must be a column of lists (got a table): choose a column")
    if _is_of(values, "pyarrow", "ChunkedArray"):
        return values.chunks or [values.combine_chunks()]
    return [values] if _is_of(values, "pyarrow", "Array") else None


def _is_of(value: Any, module: str, name: str) -> bool:
    """Whether the value is of a class, without importing its module."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


def _boundaries(sizes: Any) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def _is_sorted(numbers: np.ndarray) -> bool:
    return not (numbers[1:] < numbers[:-1]).any()


def _wrong_width(position: int, width: int, before: int | None) -> ValueError:
    return ValueError(
        f"All sets of 'X' must have the same number of features (got {width} for set "
        f"{position}, {before} before)"
    )
