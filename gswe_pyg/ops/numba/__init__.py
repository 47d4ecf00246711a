"""The ``numba`` backend: what a batch on the CPU is sorted and read by.

From above to below: :mod:`~gswe_pyg.ops.numba.backend` and, for sets with masses,
:mod:`~gswe_pyg.ops.numba.weighted` are what operators call,
:mod:`~gswe_pyg.ops.numba.batch` shares the work,
:mod:`~gswe_pyg.ops.numba.interpolate` and
:mod:`~gswe_pyg.ops.numba.weighted_kernels` are the compiled loops over graphs,
:mod:`~gswe_pyg.ops.numba.sort` the network, and :mod:`~gswe_pyg.ops.numba.simd` the
instructions that it is made of.
"""

from gswe_pyg.ops.numba.backend import adjoint, apply, quantile
from gswe_pyg.ops.numba.weighted import weighted_adjoint, weighted_quantile

__all__ = ["adjoint", "apply", "quantile", "weighted_adjoint", "weighted_quantile"]
