"""What the heads of a readout have learned, in words and as a picture."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gswe_pyg.aggr.l_moments import l_moment_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: From here on, at least half of the squared weight lies along the statistic.
LIKE = 0.5**0.5

_NO_STATISTIC = ("mixed", "not finite")


@dataclass(frozen=True, repr=False)
class HeadDescription:
    r"""What the heads of a :class:`~gswe_pyg.GSWEAggregation` have learned, from
    :meth:`~gswe_pyg.GSWEAggregation.describe`.

    A head combines the reads of a channel by weights. So do the mean, the maximum or
    the spread: the score of a statistic is the cosine of the angle between its weights
    and those of the head. It is :obj:`1.0` for the statistic itself, :obj:`-1.0` for
    its negative, and does not depend on the length of the weights.

    Attributes:
        statistics (tuple): The names of the statistics.
        scores (torch.Tensor): The score of each statistic, for each head and channel
            :math:`(H, L, S)`.
        weights (torch.Tensor): The weights of the reads :math:`(H, L, R)`, from the
            smallest read to the largest.
        has_extremes (bool): Whether the first and the last read are the minimum and
            the maximum.
    """

    statistics: tuple[str, ...]
    scores: Tensor
    weights: Tensor
    has_extremes: bool

    @property
    def best(self) -> list[list[str]]:
        r"""The nearest statistic for each head and channel; :obj:`"mixed"` where no
        score reaches :math:`\pm\sqrt{1/2}`, and :obj:`"not finite"` where a weight is
        NaN or infinite."""
        score, place = self.scores.abs().max(dim=-1)
        return [
            [
                self.statistics[p]
                if s >= LIKE
                else ("not finite" if math.isnan(s) else "mixed")
                for s, p in zip(*row, strict=True)
            ]
            for row in zip(score.tolist(), place.tolist(), strict=True)
        ]

    def rows(self) -> list[dict[str, Any]]:
        r"""One dictionary per head and channel, for :class:`pandas.DataFrame`."""
        return [
            {
                "head": head,
                "channel": channel,
                "like": like,
                **dict(zip(self.statistics, scores, strict=True)),
            }
            for head, (names, table) in enumerate(
                zip(self.best, self.scores.tolist(), strict=True)
            )
            for channel, (like, scores) in enumerate(zip(names, table, strict=True))
        ]

    def plot(self, head: int = 0, ax: "Axes | None" = None) -> "Axes":
        r"""Draws the weights of a head: a row for each channel, a column for each read,
        with the channels that are like the same statistic side by side.

        Args:
            head (int, optional): The head to draw. (default: :obj:`0`)
            ax (matplotlib.axes.Axes, optional): Where to draw. By default on a new
                figure. (default: :obj:`None`)

        Returns:
            The axes that were drawn on.
        """
        if not 0 <= head < len(self.weights):
            raise ValueError(
                f"'head' must be between 0 and {len(self.weights) - 1} (got {head})"
            )
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise ImportError(
                    "'plot' needs matplotlib: pip install 'gswe-pyg[plot]'"
                ) from error
            ax = pyplot.subplots(figsize=(5, 4), layout="constrained")[1]
        order = sorted(range(self.weights.shape[1]), key=self._place(head))
        weights = self.weights[head, order]
        limit = float(weights.abs().max()) or 1.0
        image = ax.imshow(
            weights.tolist(), cmap="PuOr_r", aspect="auto", vmin=-limit, vmax=limit
        )
        ax.figure.colorbar(image, ax=ax, label="weight")
        ax.set_xticks(range(weights.shape[1]), self._read_labels())
        names = [self.best[head][channel] for channel in order]
        starts = [i for i in range(len(names)) if i == 0 or names[i] != names[i - 1]]
        for start in starts[1:]:
            ax.axhline(start - 0.5, color="0.3", linewidth=0.8)
        ends = [*starts[1:], len(names)]
        middles = [(a + b - 1) / 2 for a, b in zip(starts, ends, strict=True)]
        labels = [f"{names[a]} ({b - a})" for a, b in zip(starts, ends, strict=True)]
        ax.set_yticks(middles, labels)
        ax.set(title=f"head {head}", xlabel="read at rank (%)", ylabel="channels")
        return ax

    def _place(self, head: int) -> Any:
        names = [*self.statistics, *_NO_STATISTIC]
        best = self.best[head]
        scores = self.scores[head].abs().amax(dim=-1).tolist()
        return lambda channel: (names.index(best[channel]), -scores[channel])

    def _read_labels(self) -> list[str]:
        num_points = self.weights.shape[-1] - 2 * self.has_extremes
        labels = [f"{100 * (m + 0.5) / num_points:.0f}" for m in range(num_points)]
        return ["min", *labels, "max"] if self.has_extremes else labels

    def __repr__(self) -> str:
        num_channels = self.weights.shape[1]
        lines = []
        for head, names in enumerate(self.best):
            best = self.scores[head].abs().amax(dim=-1)
            for name, count in Counter(names).most_common():
                score = best[[n == name for n in names]].mean()
                like = name if name in _NO_STATISTIC else f"{name}-like"
                lines.append(
                    f"head {head}: {count} of {num_channels} channels {like}, "
                    f"score {score:.2f}"
                )
        return "\n".join(lines)


def describe_heads(
    head_weight: Tensor, num_points: int, extremes: bool
) -> HeadDescription:
    r"""Compares the weights of heads :math:`(H, L, R)` with those of statistics."""
    weights = head_weight.detach().to("cpu", torch.double)
    if extremes:  # stored behind the points: minimum, maximum
        weights = torch.cat(
            [weights[..., -2:-1], weights[..., :-2], weights[..., -1:]], dim=-1
        )
    statistics = _statistics(num_points, extremes)
    rows = torch.stack(list(statistics.values()))
    rows = rows / rows.norm(dim=-1, keepdim=True)
    length = weights.norm(dim=-1, keepdim=True)
    scores = (weights @ rows.mT) / length.masked_fill(length == 0, 1)
    scores = scores.masked_fill(~weights.isfinite().all(-1, keepdim=True), torch.nan)
    return HeadDescription(tuple(statistics), scores, weights, extremes)


def _statistics(num_points: int, extremes: bool) -> dict[str, Tensor]:
    """The weights of each statistic on the reads, from the smallest to the largest."""
    names = ("mean", "spread", "skewness", "tails")[:num_points]
    moments = torch.from_numpy(l_moment_weights(len(names), num_points))
    moments = torch.nn.functional.pad(moments, 2 * (int(extremes),))
    found = dict(zip(names, moments, strict=True))
    num_reads = moments.shape[-1]
    if num_reads == 1:  # a single point is the mean, and nothing else
        return found
    places = torch.eye(num_reads, dtype=torch.double)
    median = (places[(num_reads - 1) // 2] + places[num_reads // 2]) / 2
    found |= {"max": places[-1], "min": places[0]}
    if num_points > 2:  # of two points, it is the mean
        found["median"] = median
    return found
