"""``import gswe_pyg`` is as light as that of PyG, with which it is used."""

import subprocess
import sys

CODE = """
import sys
import torch_geometric.nn
before = set(sys.modules)
import gswe_pyg
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(new - set(sys.stdlib_module_names) - {"gswe_pyg"}))
"""


def test_imports_nothing_that_pyg_does_without():
    process = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True
    )
    # Modules of these that PyG has not needed yet may come in.
    assert set(process.stdout.split()) <= {"torch", "torch_geometric", "numpy"}
