"""The ``numba`` backend: what a batch on the CPU is sorted and read by.

From above to below: :mod:`~gswe_pyg.ops.numba.backend` and, for sets with masses,
:mod:`~gswe_pyg.ops.numba.weighted` are what operators call;
:mod:`~gswe_pyg.ops.numba.batch` and :mod:`~gswe_pyg.ops.numba.job` say what is to be
done; :mod:`~gswe_pyg.ops.numba.interpolate`, :mod:`~gswe_pyg.ops.numba.large` and
:mod:`~gswe_pyg.ops.numba.weighted_kernels` are the compiled loops over graphs,
:mod:`~gswe_pyg.ops.numba.sort` the network, and :mod:`~gswe_pyg.ops.numba.simd` the
instructions that they are made of.
"""

from gswe_pyg.ops.numba.backend import adjoint, apply, heads, heads_adjoint, quantile
from gswe_pyg.ops.numba.weighted import weighted_adjoint, weighted_quantile

__all__ = [
    "adjoint",
    "apply",
    "heads",
    "heads_adjoint",
    "quantile",
    "weighted_adjoint",
    "weighted_quantile",
]
