r"""Importing this package makes GSWE known to GraphGym.

In a config for graph-level tasks, write

.. code-block:: yaml

    gnn:
      head: gswe
    gswe:            # optional
      points: 16

and import :obj:`gswe_pyg.graphgym` before the config is read.
"""

import importlib.util

for names in (("yacs",), ("pytorch_lightning", "lightning")):
    if not any(importlib.util.find_spec(name) for name in names):
        raise ImportError(
            f"GraphGym needs the package {names[0]!r}: run 'pip install "
            f"gswe-pyg[graphgym]'"
        )

from gswe_pyg.graphgym.config import add_gswe_config  # noqa: E402
from gswe_pyg.graphgym.head import GSWEGraphHead  # noqa: E402

__all__ = ["GSWEGraphHead", "add_gswe_config"]
