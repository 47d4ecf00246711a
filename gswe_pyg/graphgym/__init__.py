r"""Importing this package makes GSWE known to GraphGym.

In a config for graph-level tasks, write

.. code-block:: yaml

    gnn:
      head: gswe
    gswe:            # optional
      points: 16

and import :obj:`gswe_pyg.graphgym` before the config is read.
"""

try:
    import pytorch_lightning  # noqa: F401
    import yacs  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"GraphGym needs a package that is missing ({error}): run 'pip install "
        f"gswe-pyg[graphgym]'"
    ) from error

from gswe_pyg.graphgym.config import add_gswe_config
from gswe_pyg.graphgym.head import GSWEGraphHead

__all__ = ["GSWEGraphHead", "add_gswe_config"]
