import io
import os
import pickle

import pytest
import torch
from torch.utils.data import Subset
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from gswe_pyg.datasets import SetCircles, SetDataset, WordSets
from gswe_pyg.transforms import GaussianJitter, TwoViews


def words(keep_empty: bool = True) -> WordSets:
    texts = ["a b a", "", "c", "b c c"]
    vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 1.0]}
    with pytest.warns(UserWarning, match="1 empty documents"):
        return WordSets.from_documents(texts, [0, 1, 0, 1], vectors, None, keep_empty)


def assert_same_batch(batch: Batch, expected: Batch) -> None:
    assert type(batch) is type(expected)
    assert batch.num_graphs == expected.num_graphs
    assert set(batch.keys()) == set(expected.keys())
    for key in expected.keys():  # noqa: SIM118
        assert torch.equal(batch[key], expected[key]), key
        assert batch[key].dtype == expected[key].dtype
    for one, other in zip(batch.to_data_list(), expected.to_data_list(), strict=True):
        assert set(one.keys()) == set(other.keys())
        assert all(torch.equal(one[key], other[key]) for key in one.keys())  # noqa: SIM118


@pytest.mark.parametrize(
    "dataset",
    [
        SetCircles(num_sets=6),
        SetCircles(num_sets=6, min_size=0, max_size=1),
        SetCircles(num_sets=9)[[8, 1, 5, 0, 2, 7]],
        SetCircles(num_sets=6, pre_transform=lambda d: d.update({"x": d.pos})),
        lambda: words()[[3, 1, 0, 2, 1, 0]],
    ],
)
@pytest.mark.parametrize("indices", [[3], [5, 0, 2], [1, 1, -1]])
def test_get_batch_is_what_pyg_would_make(dataset, indices):
    dataset = dataset if isinstance(dataset, SetDataset) else dataset()
    expected = Batch.from_data_list([dataset[i] for i in indices])
    assert_same_batch(dataset.get_batch(indices), expected)
    assert_same_batch(dataset.get_batch(torch.tensor(indices)), expected)


def test_get_batch_with_edges_and_views():
    dataset = SetCircles(num_sets=4, pre_transform=add_chain)
    batch = dataset.get_batch([2, 0])
    assert_same_batch(batch, Batch.from_data_list([dataset[2], dataset[0]]))
    assert batch.edge_index.max() >= dataset[2].num_nodes

    dataset = SetCircles(num_sets=4, transform=TwoViews(GaussianJitter(0.0)))
    first, second = dataset.get_batch([2, 0])
    assert_same_batch(first, second)
    assert dataset.num_features == 2
    assert dataset.num_classes == 2


@pytest.mark.parametrize("indices", [[], [4], [-5]])
def test_get_batch_rejects_indices(indices):
    with pytest.raises(IndexError, match="between -4 and 3"):
        SetCircles(num_sets=4).get_batch(indices)


def test_pyg_loader_works_on_data_sets_and_subsets():
    dataset = SetCircles(num_sets=5)
    batches = list(DataLoader(dataset, batch_size=2))
    assert [batch.num_graphs for batch in batches] == [2, 2, 1]
    batch = next(iter(DataLoader(Subset(dataset, [3, 1]), batch_size=2)))
    assert_same_batch(batch, Batch.from_data_list([dataset[3], dataset[1]]))


def test_an_epoch_leaves_no_objects_behind():
    dataset = SetCircles(num_sets=5)
    for _ in DataLoader(dataset, batch_size=2):
        pass
    assert dataset._data_list is None


def test_copy_of_a_lazy_data_set_is_complete():
    dataset = words()
    copied = dataset.copy([0, 3])
    assert len(copied) == 2
    assert torch.equal(copied[1].x, dataset[3].x)
    assert_same_batch(copied.get_batch([1]), dataset.get_batch([3]))


class Stored(SetDataset):
    """Two sets, through a processed file."""

    def __init__(self, root, **kwargs):
        super().__init__(root, **kwargs)
        self.load(self.processed_paths[0])

    raw_file_names = ()
    processed_file_names = "sets.pt"

    def process(self):
        data = Data(pos=torch.arange(6.0).view(3, 2), y=torch.tensor([1, 0]))
        slices = {"pos": torch.tensor([0, 2, 3]), "y": torch.tensor([0, 1, 2])}
        self._write(self.processed_paths[0], *self._prepare(data, slices))


def test_processed_file_is_reused_unless_told_otherwise(tmp_path):
    assert len(Stored(tmp_path)) == 2
    with pytest.warns(UserWarning, match="made with pre_filter=None"):
        assert len(Stored(tmp_path, pre_filter=lambda data: data.y > 0)) == 2
    kept = Stored(tmp_path, pre_filter=lambda data: data.y > 0, force_reload=True)
    assert len(kept) == 1
    assert kept[0].pos.tolist() == [[0.0, 1.0], [2.0, 3.0]]


def add_chain(data: Data) -> Data:
    index = torch.arange(data.num_nodes)
    data.edge_index = torch.stack([index[:-1], index[1:]])
    return data


def test_pre_transform_may_add_edges(tmp_path):
    dataset = Stored(tmp_path, pre_transform=add_chain)
    assert dataset[0].edge_index.tolist() == [[0], [1]]
    assert dataset[1].num_edges == 0


@pytest.mark.parametrize("damage", ["half", "empty", "text", "foreign", "list"])
def test_damaged_processed_file_is_named_and_removed(tmp_path, damage):
    Stored(tmp_path)
    path = tmp_path / "processed" / "sets.pt"
    content = path.read_bytes()
    damaged = {
        "half": content[: len(content) // 2],
        "empty": b"",
        "text": b"hello",
        "foreign": saved({"other": 1}),
        "list": saved([1, 2]),
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(ValueError, match=r"sets\.pt' is damaged or foreign"):
        Stored(tmp_path)
    assert not path.exists()
    assert len(Stored(tmp_path)) == 2


class RunsCode:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("name", ["sets.pt", "pre_transform.pt"])
def test_processed_files_run_no_code(tmp_path, name):
    Stored(tmp_path)
    trap = tmp_path / "trap"
    (tmp_path / "processed" / name).write_bytes(saved(RunsCode(str(trap))))
    if name == "sets.pt":
        with pytest.raises(ValueError, match="damaged or foreign"):
            Stored(tmp_path)
    else:
        Stored(tmp_path)
    assert not trap.exists()


def test_interrupted_writing_leaves_the_old_file(tmp_path, monkeypatch):
    Stored(tmp_path)

    def interrupted(content, path):
        with open(path, "wb") as file:
            file.write(b"half of the")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Stored(tmp_path, force_reload=True)
    monkeypatch.undo()
    assert os.listdir(tmp_path / "processed") == ["sets.pt"]
    assert len(Stored(tmp_path)) == 2


class Unstorable:
    pass


def test_what_cannot_be_read_back_is_not_stored(tmp_path):
    def add(data: Data) -> Data:
        data.extra = Unstorable()
        return data

    with pytest.raises(TypeError, match=r"sets\.pt' cannot be stored"):
        Stored(tmp_path, pre_transform=add)
    assert os.listdir(tmp_path / "processed") == []


def saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, pickle_module=pickle)
    return buffer.getvalue()
