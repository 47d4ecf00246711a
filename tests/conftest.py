from collections.abc import Callable
from pathlib import Path

import backends
import pytest
from torch import Tensor

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture
def real_data(tmp_path: Path) -> Callable[[str], Path]:
    """A fresh root that links to the raw files of a data set in ``data/``."""

    def link(name: str) -> Path:
        source, root = DATA / name, tmp_path / name
        if not source.is_dir():
            pytest.skip(f"real data: data/{name} is not laid out (see README.md)")
        for path in source.rglob("*"):
            inside = path.relative_to(source)
            if path.is_file() and "processed" not in inside.parts:
                (root / inside).parent.mkdir(parents=True, exist_ok=True)
                (root / inside).symlink_to(path)
        return root

    return link


@pytest.fixture(scope="session")
def ragged() -> Callable[..., tuple[Tensor, Tensor]]:
    return backends.ragged
