import sys

import pytest
import torch

from gswe_pyg.models import CategoryEncoder


def test_is_the_sum_of_one_embedding_per_column():
    encoder = CategoryEncoder([4, 2], 8)
    assert str(encoder) == "CategoryEncoder([4, 2], 8)"
    first, second = (embedding.weight for embedding in encoder.embeddings)
    out = encoder(torch.tensor([[3, 0], [1, 1]]))
    torch.testing.assert_close(out, first[[3, 1]] + second[[0, 1]])


def test_atoms_and_bonds():
    assert len(CategoryEncoder.of_atoms(4).embeddings) == 9
    assert len(CategoryEncoder.of_bonds(4).embeddings) == 3


def test_bad_input(monkeypatch):
    for sizes in ([], [3, 0]):
        with pytest.raises(ValueError, match="'num_categories' must have a positive"):
            CategoryEncoder(sizes, 8)
    with pytest.raises(ValueError, match=r"must be of shape \[N, 2\], .* \[5, 3\]"):
        CategoryEncoder([4, 2], 8)(torch.zeros(5, 3, dtype=torch.long))
    monkeypatch.setitem(sys.modules, "ogb.utils", None)
    with pytest.raises(ImportError, match="pip install ogb"):
        CategoryEncoder.of_atoms(4)
