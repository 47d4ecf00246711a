"""The hot kernel: quantiles of ragged segments, without padding."""

from gswe_pyg.ops.segment_quantile import backend, segment_quantile

__all__ = ["backend", "segment_quantile"]
