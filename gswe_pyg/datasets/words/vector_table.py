import numpy as np


class VectorTable:
    """Collects vectors of one dimension, each of them once."""

    def __init__(self) -> None:
        self._dimension = 0
        self._row: dict[bytes, int] = {}

    def rows(self, vectors: np.ndarray) -> np.ndarray:
        r"""Gives the rows of :obj:`vectors` in the table, adding the new ones.

        Args:
            vectors (numpy.ndarray): Vectors of shape :math:`[n, F]`, where :math:`F`
                is the same in every call.
        """
        vectors = np.ascontiguousarray(vectors, np.float32)
        if not self._row:
            self._dimension = vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise ValueError(
                f"'vectors' must all have one dimension (got {vectors.shape[1]} after "
                f"{self._dimension})"
            )
        found = (
            self._row.setdefault(vector.tobytes(), len(self._row)) for vector in vectors
        )
        return np.fromiter(found, np.int64, len(vectors))

    def vectors(self) -> np.ndarray:
        flat = np.frombuffer(bytearray().join(self._row), np.float32)
        return flat.reshape(len(self._row), self._dimension)
