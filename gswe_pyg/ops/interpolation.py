"""Where a reference rank falls among the sorted values of a set of another size.

Every interpolation is a linear map from ``n`` sorted values to ``num_points`` points
that depends on the two sizes alone. The positions are computed in integers: a fraction
is rounded once, at the end, however large the set is.
"""

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

INTERPOLATIONS = ("linear", "step", "barycentric", "pswe")

# Points that share one small matrix. Larger blocks multiply more zeros, smaller ones
# cost more calls; 32 was the fastest of 8 ... 128 for sets of 10 to 2,000 elements.
_BLOCK = 32

# OpenBLAS keeps a product of at most this many multiplications on the calling thread,
# which is what we want: the callers are the worker threads.
_BLAS_ONE_THREAD = 4 * 65536

# Beyond this size a map is cheaper to rebuild than to keep.
_CACHED_SIZE = 4096


class Neighbours(NamedTuple):
    """Point ``m`` is ``lower_weight * s[lower] + upper_weight * s[upper]``."""

    lower: np.ndarray
    upper: np.ndarray
    lower_weight: np.ndarray
    upper_weight: np.ndarray


def neighbours(n: np.ndarray, num_points: int, interpolation: str) -> Neighbours:
    r"""The two sorted values that each point lies between, and their weights.

    Args:
        n (numpy.ndarray): The sizes of the sets, all positive, shape :math:`(B)`.
        num_points (int): The number of points :math:`M`.
        interpolation (str): ``"linear"``, ``"step"`` or ``"pswe"``.

    Shapes:
        - **output:** four arrays :math:`(B, M)`
    """
    n = np.asarray(n, dtype=np.int64)[..., None]
    m = np.arange(num_points, dtype=np.int64)
    if interpolation == "step":
        # Smallest j with (j + 1) / n >= (2 m + 1) / (2 M).
        numerator, denominator = n * (2 * m + 1) - 1, 2 * num_points
    elif interpolation == "linear":
        # (j + 1/2) / n = (m + 1/2) / M, solved for a fractional j.
        numerator, denominator = n * (2 * m + 1) - num_points, 2 * num_points
    elif interpolation == "pswe":
        # (j + 1) / (n + 1) = (m + 1) / (M + 1), solved for a fractional j.
        numerator = (n + 1) * (m + 1) - (num_points + 1)
        denominator = num_points + 1
    else:
        raise NotImplementedError(interpolation)

    lower = numerator // denominator
    if interpolation == "step":
        upper, fraction = lower, np.zeros(lower.shape)
    elif interpolation == "linear":
        # Constant outside of the first and the last midpoint.
        fraction = (numerator - lower * denominator) / denominator
        fraction = np.where((lower < 0) | (lower >= n - 1), 0.0, fraction)
        lower = np.clip(lower, 0, n - 1)
        upper = np.minimum(lower + 1, n - 1)
    else:
        # Extrapolated along the first and the last pair of values.
        lower = np.clip(lower, 0, np.maximum(n - 2, 0))
        upper = np.minimum(lower + 1, n - 1)
        fraction = (numerator - lower * denominator) / denominator
        fraction = np.where(n == 1, 0.0, fraction)
    return Neighbours(lower, upper, 1.0 - fraction, fraction)


def overlap(n: int, num_points: int, start: int, stop: int) -> tuple[int, np.ndarray]:
    r"""How much of the points ``start <= m < stop`` comes from each sorted value.

    Value :math:`j` fills :math:`(j/n, (j+1)/n)` and point :math:`m` averages over
    :math:`(m/M, (m+1)/M)`.

    Returns:
        The first value :math:`a` that counts, and the weights :math:`(b - a, stop -
        start)` of the values :math:`a, \ldots, b - 1`.
    """
    first = start * n // num_points
    last = -(-stop * n // num_points)
    j = np.arange(first, last, dtype=np.int64)[:, None]
    m = np.arange(start, stop, dtype=np.int64)
    right = np.minimum((j + 1) * num_points, (m + 1) * n)
    left = np.maximum(j * num_points, m * n)
    return first, np.maximum(right - left, 0) / n


class Interpolator:
    r"""The map from rows of :attr:`n` sorted values to rows of points, and its adjoint.

    Only the values in :attr:`columns` matter; :obj:`None` stands for all of them.
    """

    def __init__(self, n: int, num_points: int, interpolation: str) -> None:
        self.n = n
        self.num_points = num_points
        self.interpolation = interpolation
        self.columns: np.ndarray | None = None
        self.near: Neighbours | None = None
        if interpolation != "barycentric":
            self.near = Neighbours(
                *(a[0] for a in neighbours(np.array([n]), num_points, interpolation))
            )
            touched = np.union1d(self.near.lower, self.near.upper)
            if len(touched) < n:
                self.columns = touched

    @property
    def num_columns(self) -> int:
        return self.n if self.columns is None else len(self.columns)

    @cached_property
    def _blocks(self) -> list[tuple[slice, slice, np.ndarray]]:
        """The map as small matrices: points, columns, weights [columns, points]."""
        blocks = []
        for start in range(0, self.num_points, _BLOCK):
            stop = min(start + _BLOCK, self.num_points)
            if self.near is None:
                first, weight = overlap(self.n, self.num_points, start, stop)
            else:
                lower, upper, *weights = (a[start:stop] for a in self.near)
                if self.columns is not None:
                    lower, upper = np.searchsorted(self.columns, [lower, upper])
                first, m = lower[0], np.arange(stop - start)
                weight = np.zeros((upper[-1] + 1 - first, stop - start))
                np.add.at(weight, (lower - first, m), weights[0])
                np.add.at(weight, (upper - first, m), weights[1])
            columns = slice(first, first + len(weight))
            blocks.append((slice(start, stop), columns, weight.astype(np.float32)))
        return blocks

    @cached_property
    def _float32(self) -> tuple[np.ndarray, np.ndarray]:
        return tuple(w.astype(np.float32) for w in self.near[2:])

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """From sorted rows ``[R, n]`` to ``[R, M]``, float32."""
        if self.n == self.num_points:
            return values
        # Sorted, so that the ends tell whether all of the row is finite.
        if not np.isfinite(values[:, [0, -1]]).all():
            return self._apply_to_infinite(values)
        if self.near is None:
            return self.from_columns(values)
        # Not a matrix product: a row must give the same bits in every batch.
        out = values.take(self.near.lower, axis=1)
        if self.interpolation == "step":
            return out
        upper = values.take(self.near.upper, axis=1)
        out *= self._float32[0]
        upper *= self._float32[1]
        out += upper
        return out

    def from_columns(self, values: np.ndarray) -> np.ndarray:
        """From the values at :attr:`columns`, ``[R, num_columns]``, to ``[R, M]``."""
        out = np.empty((len(values), self.num_points), np.float32)
        for points, columns, weight in self._blocks:
            for rows in _row_steps(len(values), weight.size):
                np.matmul(values[rows, columns], weight, out=out[rows, points])
        return out

    def adjoint(self, grad: np.ndarray) -> np.ndarray:
        """From ``[R, M]`` back to ``[R, num_columns]``, float32."""
        if self.n == self.num_points:
            return grad
        if len(self._blocks) == 1:
            out = np.empty((len(grad), self.num_columns), np.float32)
            weight = self._blocks[0][2].T
            for rows in _row_steps(len(grad), weight.size):
                np.matmul(grad[rows], weight, out=out[rows])
            return out
        out = np.zeros((len(grad), self.num_columns), np.float32)
        for points, columns, weight in self._blocks:
            for rows in _row_steps(len(grad), weight.size):
                out[rows, columns] += grad[rows, points] @ weight.T
        return out

    def _apply_to_infinite(self, values: np.ndarray) -> np.ndarray:
        """As ``__call__``, where a weight of zero times infinity is nothing."""
        out = np.zeros((len(values), self.num_points), np.float32)
        with np.errstate(invalid="ignore", over="ignore"):
            if self.near is not None:
                for column, weight in zip(self.near[:2], self.near[2:], strict=True):
                    term = values[:, column] * weight
                    out += np.where(weight == 0, 0, term).astype(np.float32)
                return out
            finite = np.isfinite(values)
            out += self.from_columns(np.where(finite, values, 0))
            for kind in (values == np.inf, values == -np.inf, np.isnan(values)):
                if kind.any():
                    hit = self.from_columns(kind.astype(np.float32)) > 0
                    out[hit] += values[kind][0]
        return out


def _row_steps(num_rows: int, matrix_size: int) -> Iterator[slice]:
    step = max(1, _BLAS_ONE_THREAD // max(1, matrix_size))
    for start in range(0, num_rows, step):
        yield slice(start, start + step)


_cached_interpolator = lru_cache(maxsize=512)(Interpolator)


def interpolator(n: int, num_points: int, interpolation: str) -> Interpolator:
    """An :class:`Interpolator`, from the cache where it is small enough to be kept."""
    make = _cached_interpolator if n <= _CACHED_SIZE else Interpolator
    return make(n, num_points, interpolation)
