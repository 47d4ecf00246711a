import torch
from torch import Tensor


def stratified_folds(
    y: Tensor, num_folds: int = 5, seed: int = 0
) -> list[tuple[Tensor, Tensor]]:
    r"""Splits examples for cross-validation, every class evenly over the folds.

    Neither reads nor changes the global random state.

    Args:
        y (torch.Tensor): The class of every example, of shape :math:`[N]`.
        num_folds (int, optional): The number of folds. (default: :obj:`5`)
        seed (int, optional): The seed of the split. (default: :obj:`0`)

    Returns:
        One pair of sorted index tensors :obj:`(train, test)` per fold. Every example
        is in exactly one of the test parts.

    Example:
        >>> import torch
        >>> from gswe_pyg.datasets import stratified_folds
        >>> train, test = stratified_folds(torch.tensor([0, 0, 1, 1]), num_folds=2)[0]
        >>> len(train), len(test)
        (2, 2)
    """
    if not 2 <= num_folds <= y.numel():
        raise ValueError(
            f"'num_folds' must be between 2 and the number of examples, {y.numel()} "
            f"(got {num_folds})"
        )
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(y.numel(), generator=generator)
    by_class = shuffled[y.flatten()[shuffled].argsort(stable=True)]
    # Dealing out one class after the other, without starting again at the first
    # fold, balances the classes and the folds at once.
    fold = torch.empty_like(by_class)
    fold[by_class] = torch.arange(y.numel()) % num_folds
    return [
        ((fold != k).nonzero().flatten(), (fold == k).nonzero().flatten())
        for k in range(num_folds)
    ]
