from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gswe_pyg.testing import SIZES

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
    """Draws a batch of sets of the given sizes: the elements, and the set of each, or
    the boundaries of the sets. The values are the same in every precision."""

    def draw(
        channels: int = 4,
        sizes: Sequence[int] = SIZES,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        boundaries: bool = False,
    ) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        shape = (sum(sizes), channels)
        x = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        ptr = torch.tensor([0, *sizes]).cumsum(0)
        index = torch.arange(len(sizes)).repeat_interleave(ptr.diff())
        return x, ptr if boundaries else index

    return draw
