import torch
from torch import Tensor


def merge_breakpoints(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    r"""Cuts an interval at the breakpoints of two step functions on it.

    Both step functions start at zero and end at the same place; the :math:`j`-th step
    of one ends at its :math:`j`-th breakpoint. On each of the resulting pieces both are
    constant. Coinciding breakpoints give a piece of width zero, whose steps may lie one
    beyond the last and are reported as the last.

    Args:
        a (torch.Tensor): The ends of the steps, non-decreasing, shape :math:`(*, P)`.
        b (torch.Tensor): The same of the other function, shape :math:`(*, Q)`.

    Returns:
        Four tensors :math:`(*, P + Q)`: the width of each piece, the step of ``a``
        and the step of ``b`` that it belongs to, and which of the breakpoints, those
        of ``a`` before those of ``b``, it ends at.
    """
    ends, origin = torch.cat([a, b], dim=-1).sort(dim=-1, stable=True)
    width = torch.diff(ends, dim=-1, prepend=torch.zeros_like(ends[..., :1]))
    from_a = (origin < a.shape[-1]).long()
    # Steps that ended before this piece does.
    step_a = from_a.cumsum(-1) - from_a
    step_b = torch.arange(ends.shape[-1], device=ends.device) - step_a
    return (
        width,
        step_a.clamp(max=a.shape[-1] - 1),
        step_b.clamp(max=b.shape[-1] - 1),
        origin,
    )
