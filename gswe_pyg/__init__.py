"""Generalized Sliced-Wasserstein Embedding: a readout for PyTorch Geometric."""

__version__ = "0.1.0"

__all__ = ["__version__"]
