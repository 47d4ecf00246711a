"""Sets in, vectors out: a scikit-learn transformer for sets of any sizes."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "'gswe_pyg.sets' needs scikit-learn: use 'pip install \"gswe-pyg[sets]\"'"
    ) from error

from gswe_pyg.sets.embedder import SetEmbedder, embed_sets

__all__ = ["SetEmbedder", "embed_sets"]
