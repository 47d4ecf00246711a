import warnings
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass
class BagOfWords:
    r"""Documents as word counts over one table of word vectors.

    Attributes:
        token (numpy.ndarray): The row in :obj:`vectors` of every word of every
            document, document after document, of shape :math:`[N]`.
        count (numpy.ndarray): How often that word occurs there, of shape :math:`[N]`.
        ptr (numpy.ndarray): Where each document starts, of shape :math:`[D + 1]`.
        y (numpy.ndarray): The class of each document, of shape :math:`[D]`.
        classes (list of str): The names of the classes.
        vectors (numpy.ndarray): The word vectors, of shape :math:`[V, F]`.
        splits (list): Pairs of index arrays :obj:`(train, test)`.
    """

    token: np.ndarray
    count: np.ndarray
    ptr: np.ndarray
    y: np.ndarray
    classes: list[str]
    vectors: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.ptr)

    def without_unknown(self) -> "BagOfWords":
        """Drops the words without a vector, whose token is -1."""
        known = self.token >= 0
        document = np.repeat(np.arange(len(self.y)), self.sizes)
        sizes = np.bincount(document[known], minlength=len(self.y))
        return replace(
            self,
            token=self.token[known],
            count=self.count[known],
            ptr=np.concatenate([[0], sizes.cumsum()]),
        )

    def without_empty(self) -> "BagOfWords":
        """Drops the documents without words, and renumbers the splits."""
        kept = self.sizes > 0
        return replace(
            self,
            ptr=np.concatenate([[0], self.sizes[kept].cumsum()]),
            y=self.y[kept],
            splits=renumber(self.splits, kept),
        )

    def compact(self) -> "BagOfWords":
        """Drops the vectors that no document uses."""
        used, token = np.unique(self.token, return_inverse=True)
        return replace(self, token=token.reshape(-1), vectors=self.vectors[used])

    def cleaned(self, source: str, keep_empty: bool, stacklevel: int) -> "BagOfWords":
        """Drops what has no vector, and says how much that was."""
        bag = self.without_unknown()
        if bag.token.size == 0:
            raise ValueError(f"no word of {source} has a vector")
        lost = []
        if bag.token.size < self.token.size:
            total = int(self.count.sum())
            lost.append(
                f"dropped {total - int(bag.count.sum()):,} of {total:,} words, which "
                f"have no vector"
            )
        num_empty = int((bag.sizes == 0).sum())
        if num_empty > 0 and keep_empty:
            lost.append(f"kept {num_empty:,} empty documents")
        elif num_empty > 0:
            bag = bag.without_empty()
            lost.append(
                f"dropped {num_empty:,} of {len(self.y):,} documents, which are empty "
                f"('keep_empty=True' keeps them)"
            )
        if lost:
            warnings.warn(f"{source}: {' and '.join(lost)}", stacklevel=stacklevel)
        return bag.compact()


def renumber(
    splits: list[tuple[np.ndarray, np.ndarray]], kept: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The splits in the numbers that the kept documents have among themselves."""
    number = np.cumsum(kept) - 1
    return [
        (number[train[kept[train]]], number[test[kept[test]]]) for train, test in splits
    ]
