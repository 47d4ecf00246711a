"""Readouts, each a PyG ``Aggregation``."""

from gswe_pyg.aggr.describe import HeadDescription
from gswe_pyg.aggr.gswe import GSWEAggregation
from gswe_pyg.aggr.pma import PMA
from gswe_pyg.aggr.quantile import MedianAggregation, QuantileAggregation
from gswe_pyg.aggr.repset import ApproxRepSet, RepSet

__all__ = [
    "PMA",
    "ApproxRepSet",
    "GSWEAggregation",
    "HeadDescription",
    "MedianAggregation",
    "QuantileAggregation",
    "RepSet",
]
