"""The two self-supervised objectives on set embeddings (paper, section 4.2)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from gswe_pyg._checks import norm_order


def simclr_loss(
    z: Tensor,
    z_bar: Tensor,
    temperature: float = 0.1,
    normalize: bool = False,
) -> Tensor:
    r"""The contrastive loss of the paper (equations 12 to 15), after SimCLR.

    Row :math:`i` of :obj:`z` and row :math:`i` of :obj:`z_bar` embed two views
    of the same set; all other rows of both are its negatives:

    .. math::
        \mathcal{L} = \frac{1}{2 |\mathcal{B}|} \sum_{i \in \mathcal{B}}
        \left( \ell_i + \overline{\ell}_i \right), \quad
        \ell_i = -\log \frac{\mathcal{S}(\nu_i, \overline{\nu}_i)}
        {\sum_{j} \mathcal{S}(\nu_i, \overline{\nu}_j) +
        \sum_{k \neq i} \mathcal{S}(\nu_i, \nu_k)}

    with :math:`\mathcal{S}(x, y) = \exp(x^{\top} y / \tau)`, and
    :math:`\overline{\ell}_i` the same with the two views exchanged. The sums are
    evaluated by log-sum-exp, so that large inner products do not overflow.

    Args:
        z (torch.Tensor): Embeddings of the first views.
        z_bar (torch.Tensor): Embeddings of the second views.
        temperature (float, optional): The temperature :math:`\tau`.
            (default: :obj:`0.1`)
        normalize (bool, optional): If set to :obj:`True`, every embedding is
            scaled to unit length first, which turns the inner products into
            cosine similarities. The paper does not do this. Use it when the
            scale of the embeddings runs away. (default: :obj:`False`)

    Shapes:
        - **input:** two tensors :math:`(B, D)`, :math:`B \geq 1`
        - **output:** a scalar

    .. code-block:: python

        >>> z = torch.eye(3)
        >>> simclr_loss(z, z) < simclr_loss(z, z.flip(0))
        tensor(True)
    """
    _check_views(z, z_bar)
    if not temperature > 0:
        raise ValueError(
            f"'temperature' must be positive (got {temperature}); the paper uses 0.1"
        )
    if normalize:
        z, z_bar = F.normalize(z, dim=-1), F.normalize(z_bar, dim=-1)

    # With both views stacked, row i meets its 2B - 1 others: the B embeddings
    # of the other view and the B - 1 of its own. Only itself is left out.
    size = z.size(0)
    views = torch.cat([z, z_bar])
    similarity = views @ views.t() / temperature
    similarity.fill_diagonal_(float("-inf"))
    partner = torch.arange(2 * size, device=z.device).roll(size)
    return F.cross_entropy(similarity, partner)


def simsiam_loss(z: Tensor, z_bar: Tensor, p: float = 2.0) -> Tensor:
    r"""The loss on positive pairs alone (equations 16 and 17), after SimSiam.

    .. math::
        \mathcal{L} = \frac{1}{2 |\mathcal{B}|} \sum_{i \in \mathcal{B}} \left(
        \mathcal{D}(\nu_i, \overline{\nu}_i) +
        \mathcal{D}(\overline{\nu}_i, \nu_i) \right), \quad
        \mathcal{D}(x, y) = \| x - \mathrm{stopgrad}(y) \|_p^p

    Each term moves its first argument only: no gradient flows through the second.

    Args:
        z (torch.Tensor): Embeddings of the first views.
        z_bar (torch.Tensor): Embeddings of the second views.
        p (float, optional): The order of the norm, at least one.
            (default: :obj:`2.0`)

    Shapes:
        - **input:** two tensors :math:`(B, D)`, :math:`B \geq 1`
        - **output:** a scalar

    .. code-block:: python

        >>> z = torch.tensor([[1.0, 2.0]])
        >>> simsiam_loss(z, z + 1, p=2)
        tensor(2.)
    """
    _check_views(z, z_bar)
    if not norm_order(p) < math.inf:
        raise ValueError(f"'p' must be finite (got {p}); the usual choice is 2")
    forth = _power_distance(z, z_bar.detach(), p)
    back = _power_distance(z_bar, z.detach(), p)
    return (forth + back) / (2 * z.size(0))


def _power_distance(x: Tensor, y: Tensor, p: float) -> Tensor:
    difference = x - y
    # |t|^2 without a detour over pow(abs(t), 2), whose gradient costs more.
    return difference.square().sum() if p == 2 else difference.abs().pow(p).sum()


def _check_views(z: Tensor, z_bar: Tensor) -> None:
    for name, value in (("z", z), ("z_bar", z_bar)):
        if value.dim() != 2:
            raise ValueError(
                f"'{name}' must be a matrix with one embedding per row "
                f"(got shape {list(value.shape)}); flatten the rest"
            )
        if not value.is_floating_point():
            raise ValueError(
                f"'{name}' must hold floating-point embeddings (got {value.dtype})"
            )
    if z.shape != z_bar.shape:
        raise ValueError(
            f"'z' and 'z_bar' must hold two views of the same sets in the same order "
            f"(got shapes {list(z.shape)} and {list(z_bar.shape)})"
        )
    if z.size(0) == 0:
        raise ValueError("'z' and 'z_bar' must hold at least one set (got none)")
