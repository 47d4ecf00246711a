import glob
import os
import os.path as osp
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from gswe_pyg._checks import one_of
from gswe_pyg.datasets.set_dataset import SetDataset, collate_sets
from gswe_pyg.datasets.splits import stratified_folds
from gswe_pyg.datasets.words.bag_of_words import BagOfWords, renumber
from gswe_pyg.datasets.words.files import expected_files, read_compact, read_published
from gswe_pyg.datasets.words.texts import bag_texts, split_words
from gswe_pyg.datasets.words.vector_table import VectorTable

Splits = list[tuple[Tensor, Tensor]]


class WordSets(SetDataset):
    r"""Documents as sets of word vectors, weighted by word counts: the
    :obj:`"twitter"`, :obj:`"bbcsport"`, :obj:`"classic"` and :obj:`"amazon"` data of
    the GSWE paper, or, through :meth:`from_documents`, your own texts.

    Two layouts of raw files are read, from :obj:`root/raw` or :obj:`root`:

    * the MATLAB file published with the Word Mover's Distance, such as
      :obj:`twitter-emd_tr_te_split.mat`, with its splits (needs scipy);
    * :obj:`{name}.npz`, the word numbers and counts of the documents, beside
      :obj:`word2vec.npz`, the vectors of all words.

    The MATLAB file is preferred where both are found. Nothing is downloaded. Word
    vectors are stored once and looked up on access.

    Args:
        root (str): The folder of the data set.
        name (str): The name of the data set.
        keep_empty (bool, optional): Whether documents without any known word stay as
            graphs without nodes. Otherwise they are dropped, and counted in a
            warning. (default: :obj:`False`)
        transform (callable, optional): A transform applied on every access.
            (default: :obj:`None`)
        pre_transform (callable, optional): A transform applied once, before the
            sets are stored. (default: :obj:`None`)
        pre_filter (callable, optional): A function that tells which sets to keep.
            (default: :obj:`None`)
        force_reload (bool, optional): Whether to process the raw files again.
            (default: :obj:`False`)

    Shapes:
        - **graph:** :obj:`x` :math:`[n, 300]`, :obj:`weight` :math:`[n]`, :obj:`y`
          :math:`[1]`

    Example:
        >>> from gswe_pyg.datasets import WordSets
        >>> dataset = WordSets("data/text", "bbcsport", keep_empty=True)
        >>> dataset.num_classes, dataset.num_features
        (5, 300)
    """

    _stored = SetDataset._stored | {"vectors", "classes", "splits"}
    names = ("twitter", "bbcsport", "classic", "amazon")

    def __init__(
        self,
        root: str | os.PathLike[str],
        name: str,
        keep_empty: bool = False,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        pre_filter: Callable | None = None,
        force_reload: bool = False,
    ) -> None:
        self.name = one_of("name", name, self.names)
        self.keep_empty = keep_empty
        self._mat_file = _find_mat(os.fspath(root), name)
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)
        self.load(self.processed_paths[0])

    @classmethod
    def from_documents(
        cls,
        texts: Sequence[str] | Sequence[Sequence[str]],
        labels: Sequence[int] | Sequence[str] | Tensor,
        vectors: Any,
        tokenize: Callable[[str], Sequence[str]] | None = None,
        keep_empty: bool = False,
        transform: Callable | None = None,
    ) -> "WordSets":
        r"""Makes sets of word vectors from texts, in memory.

        A word is looked up as it is written, and in lower case where that fails.
        Words without a vector are dropped, and counted in a warning.

        Args:
            texts (sequence): The documents: texts, or sequences of words.
            labels (sequence): The class of each document. Classes are numbered in
                sorted order; :obj:`dataset.classes` has their names.
            vectors: The word vectors: a mapping from words to vectors; an object with
                :obj:`key_to_index` and :obj:`vectors`, such as gensim's
                :obj:`KeyedVectors`; or the path of a GloVe or word2vec file, text or
                binary, possibly gzipped.
            tokenize (callable, optional): Splits a text into words. The default takes
                runs of letters, digits and inner apostrophes.
                (default: :obj:`None`)
            keep_empty (bool, optional): Whether documents without any known word
                stay as graphs without nodes. (default: :obj:`False`)
            transform (callable, optional): A transform applied on every access.
                (default: :obj:`None`)

        Example:
            >>> from gswe_pyg.datasets import WordSets
            >>> vectors = {"good": [1.0, 0.0], "bad": [0.0, 1.0]}
            >>> texts = ["Good, good!", "bad good"]
            >>> dataset = WordSets.from_documents(texts, ["+", "-"], vectors)
            >>> dataset[0]
            Data(x=[1, 2], y=[1], weight=[1])
            >>> dataset[0].weight
            tensor([2.])
        """
        names: list[Any] = (
            labels.tolist() if isinstance(labels, Tensor) else list(labels)
        )
        if len(texts) == 0 or len(texts) != len(names):
            raise ValueError(
                f"'texts' and 'labels' must be equally many and at least one (got "
                f"{len(texts)} and {len(names)})"
            )
        bag = bag_texts(texts, names, vectors, tokenize or split_words)
        bag = bag.cleaned("the documents", keep_empty, stacklevel=3)

        dataset = cls.__new__(cls)
        dataset.name, dataset.keep_empty = "documents", keep_empty
        SetDataset.__init__(dataset, None, transform)
        dataset._keep(bag)
        return dataset

    @property
    def has_download(self) -> bool:
        return self.name in self.names

    @property
    def has_process(self) -> bool:
        return self.name in self.names

    @property
    def raw_file_names(self) -> list[str]:
        return (
            [self._mat_file] if self._mat_file else [f"{self.name}.npz", "word2vec.npz"]
        )

    @property
    def processed_file_names(self) -> str:
        layout = "mat" if self._mat_file else "npz"
        empty = "_with_empty" if self.keep_empty else ""
        return f"{self.name}_{layout}{empty}.pt"

    def download(self) -> None:
        missing = [path for path in self.raw_paths if not osp.exists(path)]
        raise FileNotFoundError(
            f"{missing} not found, and {self.name!r} cannot be downloaded. "
            f"{expected_files(self.root, self.name)}"
        )

    def process(self) -> None:
        if self._mat_file:
            bag = read_published(self.raw_paths[0])
        else:
            bag = read_compact(*self.raw_paths)
        bag = bag.cleaned(f"'{self.raw_paths[0]}'", self.keep_empty, stacklevel=8)
        self._keep(bag)
        vectors = torch.from_numpy(bag.vectors)  # half precision stays so on disk
        if self.pre_filter is not None or self.pre_transform is not None:
            self._prepare_words()
            vectors = self.vectors
        self._write(
            self.processed_paths[0],
            self._data,
            self.slices,
            vectors=vectors,
            classes=self.classes,
            splits=self._splits,
        )

    def get(self, idx: int) -> Data:
        return self._look_up(super().get(idx))

    def get_splits(
        self,
        kind: Literal["stratified", "published"] = "stratified",
        num_folds: int = 5,
        seed: int = 0,
    ) -> Splits:
        r"""Gives pairs of index tensors :obj:`(train, test)`.

        Args:
            kind (str, optional): :obj:`"published"` for those of the MATLAB file (70 %
                are for training in most of them), or :obj:`"stratified"` for
                cross-validation with every class evenly over the folds.
                (default: :obj:`"stratified"`)
            num_folds (int, optional): The number of stratified folds.
                (default: :obj:`5`)
            seed (int, optional): The seed of the stratified folds.
                (default: :obj:`0`)
        """
        if one_of("kind", kind, ("stratified", "published")) == "stratified":
            y = self._data.y
            y = y if self._indices is None else y[list(self._indices)]
            return stratified_folds(y, num_folds, seed)
        if self._indices is not None:
            raise ValueError("published splits number the documents of the whole set")
        if not self._splits:
            raise ValueError(
                f"{self.name!r} has no published splits, which come in the published "
                f"MATLAB file: use kind='stratified'"
            )
        return list(self._splits)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.name!r}, {len(self)})"

    @property
    def _node_slices(self) -> Tensor:
        return self.slices["token"] if "token" in self.slices else super()._node_slices

    def _keep(self, bag: BagOfWords) -> None:
        node_slices = torch.from_numpy(bag.ptr)
        self.data = Data(
            token=torch.from_numpy(bag.token),
            weight=torch.from_numpy(bag.count.astype(np.float32)),
            y=torch.from_numpy(bag.y.astype(np.int64)),
        )
        self.slices = {
            "token": node_slices,
            "weight": node_slices,
            "y": torch.arange(len(bag.y) + 1),
        }
        self.vectors = torch.from_numpy(bag.vectors).float()
        self.classes = bag.classes
        self._splits = _as_tensors(bag.splits)

    def _load_extra(self, content: dict[str, Any]) -> None:
        self.vectors = content["vectors"].float()
        self.classes = content["classes"]
        self._splits = content["splits"]

    def _prepare_words(self) -> None:
        """Prepares the documents one by one, and stores their vectors once again."""
        kept = np.zeros(self.len(), dtype=bool)
        table, graphs = VectorTable(), []
        for i, graph in self._prepared(self.get(i) for i in range(self.len())):
            kept[i] = True
            if graph.x is not None:
                graph.token = torch.from_numpy(table.rows(graph.x.numpy()))
                del graph.x
            graphs.append(graph)
        self.data, self.slices = collate_sets(graphs)
        self.vectors = torch.from_numpy(table.vectors())
        splits = [(train.numpy(), test.numpy()) for train, test in self._splits]
        self._splits = _as_tensors(renumber(splits, kept))

    def _look_up(self, data: Data) -> Data:
        if "token" not in data:
            return data
        stored = data.to_dict()
        return data.__class__(x=self.vectors[stored.pop("token")], **stored)

    def _gather(self, chosen: Tensor) -> Batch:
        batch = super()._gather(chosen)
        if "token" in batch:
            batch.x = self.vectors.index_select(0, batch.token)
            del batch.token
            for attributes in (batch._slice_dict, batch._inc_dict):
                attributes["x"] = attributes.pop("token")
        return batch


def _find_mat(root: str, name: str) -> str | None:
    found = {
        osp.basename(path)
        for folder in (osp.join(root, "raw"), root)
        for path in glob.glob(osp.join(glob.escape(folder), f"{name}*.mat"))
    }
    if len(found) > 1:
        raise ValueError(
            f"'{root}' has several MATLAB files for {name!r}: {sorted(found)}. Keep one"
        )
    return next(iter(found), None)


def _as_tensors(splits: list[tuple[np.ndarray, np.ndarray]]) -> Splits:
    return [(torch.from_numpy(train), torch.from_numpy(test)) for train, test in splits]
