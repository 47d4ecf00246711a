"""Generalized Sliced-Wasserstein Embedding: a readout for PyTorch Geometric."""

from gswe_pyg.aggr import GSWEAggregation

__version__ = "0.1.0"

__all__ = ["GSWEAggregation", "__version__"]
