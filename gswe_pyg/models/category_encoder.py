from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Embedding, Module, ModuleList


class CategoryEncoder(Module):
    r"""The sum of one embedding per column, for features that are categories, such as
    the atoms and bonds of OGB's molecules.

    Args:
        num_categories (Sequence[int]): The number of categories of each column.
        out_channels (int): The size of the embeddings.

    Shapes:
        - **input:** categories :math:`(N, F)`, integers
        - **output:** embeddings :math:`(N, \mathrm{out\_channels})`

    Example:
        >>> encoder = CategoryEncoder([5, 3], out_channels=16)
        >>> encoder(torch.tensor([[4, 2], [0, 1]])).shape
        torch.Size([2, 16])
    """

    def __init__(self, num_categories: Sequence[int], out_channels: int) -> None:
        super().__init__()
        if len(num_categories) == 0 or min(num_categories) < 1:
            raise ValueError(
                f"'num_categories' must have a positive number for each column (got "
                f"{list(num_categories)})"
            )
        self.out_channels = out_channels
        self.embeddings = ModuleList(
            Embedding(number, out_channels) for number in num_categories
        )
        self.reset_parameters()

    @classmethod
    def of_atoms(cls, out_channels: int) -> "CategoryEncoder":
        r"""For the node features of OGB's molecules.

        Args:
            out_channels (int): The size of the embeddings.
        """
        return cls(_ogb_features().get_atom_feature_dims(), out_channels)

    @classmethod
    def of_bonds(cls, out_channels: int) -> "CategoryEncoder":
        r"""For the edge features of OGB's molecules.

        Args:
            out_channels (int): The size of the embeddings.
        """
        return cls(_ogb_features().get_bond_feature_dims(), out_channels)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for embedding in self.embeddings:
            for weight in embedding.parameters():
                torch.nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor) -> Tensor:
        r""""""
        if x.dim() != 2 or x.size(1) != len(self.embeddings):
            raise ValueError(
                f"The features must be of shape [N, {len(self.embeddings)}], a column "
                f"for each entry of 'num_categories' (got {list(x.shape)})"
            )
        return sum(
            embedding(column)
            for embedding, column in zip(self.embeddings, x.t(), strict=True)
        )

    def __repr__(self) -> str:
        sizes = [embedding.num_embeddings for embedding in self.embeddings]
        return f"{self.__class__.__name__}({sizes}, {self.out_channels})"


def _ogb_features():
    try:
        from ogb.utils import features
    except ImportError as error:
        raise ImportError(
            "the categories of atoms and bonds are listed by the ogb package: run 'pip "
            "install ogb'"
        ) from error
    return features
