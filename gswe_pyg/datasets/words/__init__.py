"""What :class:`~gswe_pyg.datasets.WordSets` is made of: files, vectors and counts."""
