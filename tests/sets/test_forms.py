"""Every form of the same sets is read as the same sets."""

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_dense_batch

from gswe_pyg.datasets import SetCircles
from gswe_pyg.sets import SetEmbedder
from gswe_pyg.sets.forms import as_sets

SIZES = [3, 0, 1, 4]
PTR = np.array([0, 3, 3, 4, 8])
INDEX = np.repeat(np.arange(4), SIZES)
X = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
WEIGHT = np.random.default_rng(1).random(8).astype(np.float32)
SETS = np.split(X, PTR[1:-1])
WEIGHTS = np.split(WEIGHT, PTR[1:-1])


def graphs(key="x"):
    return [
        Data(**{key: torch.from_numpy(x), "weight": torch.from_numpy(w)}, num_nodes=n)
        for x, w, n in zip(SETS, WEIGHTS, SIZES, strict=True)
    ]


def shuffled():
    order = np.random.default_rng(2).permutation(8)
    order = order[np.argsort(INDEX[order] != 0, kind="stable")]  # set 0 first
    return order


def dense():
    x, mask = to_dense_batch(torch.from_numpy(X), torch.from_numpy(INDEX))
    weight = torch.zeros(mask.shape)
    weight[mask] = torch.from_numpy(WEIGHT)
    return (x, mask), weight


def arrow(inner="fixed", large=False, dtype="float32", values=X):
    pa = pytest.importorskip("pyarrow")
    values = pa.array(values.astype(dtype).reshape(-1))
    if inner == "fixed":
        elements = pa.FixedSizeListArray.from_arrays(values, 2)
    else:
        offsets = pa.array(np.arange(0, len(values) + 1, 2, dtype=np.int32))
        elements = pa.ListArray.from_arrays(offsets, values)
    kind, offset = (pa.LargeListArray, np.int64) if large else (pa.ListArray, np.int32)
    return kind.from_arrays(pa.array(PTR.astype(offset)), elements)


def arrow_weight():
    pa = pytest.importorskip("pyarrow")
    return pa.ListArray.from_arrays(pa.array(PTR.astype(np.int32)), pa.array(WEIGHT))


def chunked(column):
    pa = pytest.importorskip("pyarrow")
    return pa.chunked_array([column.slice(0, 1), column.slice(1, 1), column.slice(2)])


def frame():
    pd = pytest.importorskip("pandas")
    # Frames have no rows for empty sets.
    columns = {"u": X[:, 0], "v": X[:, 1], "mass": WEIGHT}
    return pd.DataFrame(columns, index=pd.Index(INDEX, name="set"))


def polars(values):
    return pytest.importorskip("polars").Series([v.tolist() for v in values])


def jagged():
    # Built from its parts: `nested_tensor` would copy.
    return torch.nested.nested_tensor_from_jagged(
        torch.from_numpy(X), torch.from_numpy(PTR)
    )


FORMS = {
    "arrays": lambda: (SETS, WEIGHTS),
    "tensors": lambda: ([torch.from_numpy(s) for s in SETS], WEIGHTS),
    "double": lambda: ([s.astype(np.float64) for s in SETS], WEIGHTS),
    "lists": lambda: ([s.tolist() for s in SETS], [w.tolist() for w in WEIGHTS]),
    "a generator": lambda: ((s for s in SETS), WEIGHT),
    "a tuple": lambda: (tuple(SETS), WEIGHTS),
    "an array of arrays": lambda: (np.array([*SETS, None], object)[:-1], WEIGHTS),
    "x, ptr": lambda: ((X, PTR), WEIGHT),
    "x, ptr as tensors": lambda: (
        (torch.from_numpy(X), torch.from_numpy(PTR)),
        torch.from_numpy(WEIGHT),
    ),
    "x, ptr, weights of sets": lambda: ((X, PTR.astype(np.int32)), WEIGHTS),
    "x, index": lambda: ((X, INDEX), WEIGHT),
    "x, unsorted index": lambda: (
        (X[shuffled()], INDEX[shuffled()]),
        WEIGHT[shuffled()],
    ),
    "dense, mask": dense,
    "batch": lambda: (Batch.from_data_list(graphs()), None),
    "batch, weight by name": lambda: (Batch.from_data_list(graphs("pos")), "weight"),
    "graphs": lambda: (graphs(), None),
    "graphs, weight by name": lambda: (graphs("pos"), "weight"),
    "jagged": lambda: (jagged(), WEIGHTS),
    "nested": lambda: (
        torch.nested.nested_tensor([torch.from_numpy(s) for s in SETS]),
        torch.nested.nested_tensor([torch.from_numpy(w) for w in WEIGHTS]),
    ),
    "arrow": lambda: (arrow(), arrow_weight()),
    "arrow, lists": lambda: (arrow("lists"), arrow_weight()),
    "arrow, large": lambda: (arrow(large=True), WEIGHT),
    "arrow, double": lambda: (arrow(dtype="float64"), WEIGHTS),
    "arrow, chunks": lambda: (chunked(arrow()), chunked(arrow_weight())),
    "arrow, chunks of lists": lambda: (chunked(arrow("lists")), arrow_weight()),
    "polars": lambda: (polars(SETS), polars(WEIGHTS)),
    "pandas column": lambda: (
        pytest.importorskip("pandas").Series(SETS),
        WEIGHTS,
    ),
    "pandas arrow column": lambda: (
        pytest.importorskip("pandas").Series(
            arrow(), dtype=pytest.importorskip("pandas").ArrowDtype(arrow().type)
        ),
        WEIGHTS,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_vectors(form):
    model = SetEmbedder(8, 4, random_state=0)
    expected = model.fit_transform(SETS, weight=WEIGHTS)
    sets, weight = FORMS[form]()
    read = as_sets(sets, weight)
    assert read.ptr.tolist() == PTR.tolist()
    assert read.ptr.dtype == np.int64
    sets, weight = FORMS[form]()
    found = model.transform(sets, weight)
    # Rounding, since values are sorted in other orders of equal elements.
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_frame_gives_the_same_vectors():
    model = SetEmbedder(8, 4, random_state=0)
    expected = model.fit_transform(frame(), weight="mass")
    filled = [i for i, n in enumerate(SIZES) if n]
    listed = [SETS[i] for i in filled], [WEIGHTS[i] for i in filled]
    again = SetEmbedder(8, 4, random_state=0).fit(listed[0], weight=listed[1])
    np.testing.assert_allclose(again.transform(*listed), expected, atol=1e-6)
    assert list(model.feature_names_in_) == ["u", "v"]
    mixed = frame().iloc[shuffled()]
    assert as_sets(mixed).labels.tolist() == list(dict.fromkeys(INDEX[shuffled()]))


def test_a_data_set_is_not_copied():
    dataset = SetCircles(num_sets=6)
    read = as_sets(dataset)
    assert np.shares_memory(read.x.arrays[0], dataset._data.pos.numpy())
    part = as_sets(dataset[[4, 1]])
    assert np.array_equal(part.read(0, 1).x, dataset[4].pos.numpy())
    assert np.shares_memory(part.read(1, 2).x, dataset._data.pos.numpy())
    dataset.transform = lambda data: data
    assert np.array_equal(as_sets(dataset).read(0, 6).x, read.read(0, 6).x)


@pytest.mark.parametrize("inner", ["fixed", "lists"])
@pytest.mark.parametrize("large", [False, True])
def test_arrow_is_not_copied(inner, large):
    column = arrow(inner, large)
    values = column.values.values
    address = values.buffers()[1].address
    read = as_sets(column, arrow_weight())
    assert read.x.read(0, 8).ctypes.data == address
    assert read.read(3, 4).x.ctypes.data == address + 4 * X.itemsize * 2
    part = as_sets(column.slice(2))
    assert part.ptr.tolist() == [0, 1, 5]
    assert part.read(0, 2).x.ctypes.data == address + 3 * X.itemsize * 2


@pytest.mark.parametrize("form", ["arrays", "x, ptr", "jagged", "dense, mask"])
def test_reading_changes_nothing(form):
    sets, weight = FORMS[form]()
    before = X.copy(), WEIGHT.copy()
    SetEmbedder().fit_transform(sets, weight=weight)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(WEIGHT, before[1])


def test_dense_sets_are_views():
    x = np.zeros((3, 4, 2))
    read = as_sets(x, np.ones((3, 4)))
    assert read.ptr.tolist() == [0, 4, 8, 12]
    assert np.shares_memory(read.x.arrays[0], x)


def test_two_dimensions_are_sets_of_one_element():
    assert as_sets(X).ptr.tolist() == list(range(9))


def test_two_sets_in_a_tuple_are_two_sets():
    assert as_sets((X[:3], X[3:])).ptr.tolist() == [0, 3, 8]


def test_boundaries_win_over_an_index():
    assert as_sets((X[:3], np.array([0, 1, 3]))).ptr.tolist() == [0, 1, 3]
    assert as_sets((X[:3], np.array([0, 1, 2]))).ptr.tolist() == [0, 1, 2, 3]
    assert as_sets((X[:3], np.array([0, 0, 2]))).ptr.tolist() == [0, 2, 2, 3]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int32])
def test_numbers_of_any_type(dtype):
    x = torch.tensor([[1, 2], [3, 4]]).to(dtype)
    assert as_sets([x]).read(0, 1).x.tolist() == [[1, 2], [3, 4]]
    vectors = SetEmbedder(standardize=False, center=False).fit_transform([x])
    assert vectors.dtype == np.float32


def test_tensors_that_need_gradients():
    assert len(as_sets([torch.ones(2, 3, requires_grad=True)])) == 1


def test_arrow_without_elements():
    pa = pytest.importorskip("pyarrow")
    lists = pa.array([[], []], pa.list_(pa.list_(pa.float32())))
    assert as_sets(lists).num_features is None
    assert as_sets(lists).ptr.tolist() == [0, 0, 0]
    assert len(as_sets(pa.chunked_array([], lists.type))) == 0
    mixed = pa.chunked_array([lists, arrow("lists")])
    assert as_sets(mixed).num_features == 2
    assert len(as_sets(mixed).read(0, 6).x) == 8


def wrong_forms():
    pa = pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    nested = pa.list_(pa.list_(pa.float32()))
    return [
        ([X, X[:, :1]], None, ValueError, "got 1 for set 1, 2 before"),
        ([X, X[0]], None, ValueError, r"got \[2\] for set 1"),
        ([X, "words"], None, TypeError, "set 1 of 'X' must be real numbers"),
        ([X, [[1, 2], [3]]], None, ValueError, "Cannot read set 1 of 'X'"),
        ("words", None, TypeError, "'X' must be a list of arrays"),
        (X[0], None, ValueError, r"array of shape \[2\]"),
        (
            (X, PTR[:-1]),
            None,
            ValueError,
            r"elements, 8, .*4 numbers, 0 to 4",
        ),
        ((X, INDEX - 1), None, ValueError, r"must not be negative \(got -1\)"),
        ((X[0], PTR), None, ValueError, r"elements of 'X' must be of shape"),
        ((dense()[0][0], np.ones((4, 3), bool)), None, ValueError, r"mask .*\[4, 4\]"),
        (dense()[0], WEIGHT, ValueError, r"'weight' must be of shape \[4, 4\]"),
        (graphs()[0], None, TypeError, r"pass '\[data\]'"),
        ([Data(num_nodes=2)], None, ValueError, "must have 'x' or 'pos'"),
        (graphs(), "wieght", ValueError, r"did you mean 'weight'\?"),
        (frame(), "mas", ValueError, r"did you mean 'mass'\?"),
        (frame().assign(u="a"), None, ValueError, r"to float: 'a' .*set_index\('u'\)"),
        (pa.table({"a": arrow()}), None, TypeError, "choose a column"),
        (pa.array([[1.0], [2.0]]), None, TypeError, r"list<list<float>> for elements"),
        (pa.array([[[1.0]], None], nested), None, ValueError, "Set 1 of 'X' is null"),
        (pa.array([[], [[1.0], None]], nested), None, ValueError, "Set 1 .* is null"),
        (pa.array([[], [[1.0, None]]], nested), None, ValueError, "Set 1 .* is null"),
        (
            pa.array([[[1.0]], [], [[1.0], [1.0, 2.0]]], nested),
            None,
            ValueError,
            "got 2 for set 2, 1 before",
        ),
        (SETS, WEIGHTS[:3], ValueError, r"masses of 4 sets \(got 3\)"),
        (SETS, WEIGHTS[::-1], ValueError, "got 4 for set 0, which has 3"),
        (SETS, WEIGHT[:5], ValueError, r"each of the 8 elements \(got 5\)"),
        (pd.DataFrame({"t": pd.to_datetime(["2026-01-01"])}), None, TypeError, "real"),
    ]


@pytest.mark.parametrize("case", range(26))
def test_wrong_forms(case):
    sets, weight, error, message = wrong_forms()[case]
    with pytest.raises(error, match=message):
        as_sets(sets, weight)
    assert len(wrong_forms()) == 26
