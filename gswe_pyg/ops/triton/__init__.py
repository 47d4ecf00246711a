"""Segment quantiles on a GPU by Triton: a sort, and a linear map.

Three kernels, each beside its launcher: :mod:`~gswe_pyg.ops.triton.sort` orders sets up
to 2,048 elements in registers, :mod:`~gswe_pyg.ops.triton.interpolate` sums up values
in this order, and :mod:`~gswe_pyg.ops.triton.adjoint` is the transpose of it. All sizes
that a batch may have are served by tables, so that the host waits for nothing but the
largest size, in :mod:`~gswe_pyg.ops.triton.read`, and not for this if it is given.
"""
