"""The hot kernel: quantiles of ragged segments, without padding."""

from gswe_pyg.ops.segment_quantile import (
    backend,
    segment_heads,
    segment_quantile,
    segment_quantile_at,
)

__all__ = ["backend", "segment_heads", "segment_quantile", "segment_quantile_at"]
