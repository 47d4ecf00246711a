import numpy as np


def l_moment_weights(num_heads: int, num_points: int) -> np.ndarray:
    r"""The weights that make the first L-moments of equally spaced quantiles.

    Row :math:`h` is the :math:`h`-th discrete shifted Legendre polynomial on
    :math:`M` points: orthogonal to all rows before it, increasing at its end, and as
    long as the first row, whose entries are :math:`1/M`. Applied to quantiles, the rows
    are proportional to their mean, L-scale (spread), L-skewness, L-kurtosis (tails),
    and so on.

    Args:
        num_heads (int): The number of rows :math:`H \le M`.
        num_points (int): The number of points :math:`M`.

    Returns:
        An array :math:`(H, M)` in double precision.
    """
    middles = (2 * np.arange(num_points) + 1) / num_points - 1
    # Continuous Legendre polynomials are nearly orthogonal on the points already, which
    # keeps the factorisation accurate for any number of heads.
    columns = np.polynomial.legendre.legvander(middles, num_heads - 1)
    basis, triangle = np.linalg.qr(columns)
    weights = (basis * np.sign(np.diag(triangle))).T / np.sqrt(num_points)
    weights[0] = 1 / num_points
    return weights
