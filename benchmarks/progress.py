"""What is shown while a grid is worked on."""

import sys
from typing import Protocol

from tqdm import tqdm


class Listener(Protocol):
    """Whoever wants to know how far a worker is."""

    def start(self, label: str, epochs: int) -> None: ...

    def epoch(self) -> None: ...

    def finish(self) -> None: ...


class Bars:
    """One bar over the grid with the time left, one per worker over its epochs.

    An epoch moves the grid's bar by its share of a run, so that the estimate is
    sound from the first minute. In a log file only the grid's bar is written, and
    seldom.
    """

    def __init__(self, name: str, total: int, done: int, workers: int = 1) -> None:
        live = sys.stderr.isatty()
        self.grid = tqdm(
            desc=name,
            total=total,
            initial=done,
            unit="run",
            smoothing=0,
            mininterval=0.2 if live else 30,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total} runs "
            "[{elapsed}, {remaining} left]",
        )
        self.workers = [
            tqdm(
                position=1 + worker,
                leave=False,
                disable=not live,
                bar_format="  {desc}: {n:.0f}/{total} epochs",
            )
            for worker in range(workers)
        ]

    def listener(self, worker: int = 0) -> "WorkerBar":
        return WorkerBar(self.grid, self.workers[worker])

    def close(self) -> None:
        for bar in (*self.workers, self.grid):
            bar.close()


class WorkerBar:
    """Shows the runs of one worker."""

    def __init__(self, grid: tqdm, bar: tqdm) -> None:
        self.grid, self.bar = grid, bar
        self.seen, self.epochs = 0, 1

    def start(self, label: str, epochs: int) -> None:
        self.seen, self.epochs = 0, max(epochs, 1)
        self.bar.reset(total=epochs)
        self.bar.set_description_str(label)

    def epoch(self) -> None:
        self.seen += 1
        self._advance(1 / self.epochs)
        self.bar.update()

    def finish(self) -> None:
        self._advance(1 - self.seen / self.epochs)

    def _advance(self, share: float) -> None:
        """Shares may add up to a little more than all runs; tqdm would complain."""
        self.grid.update(min(share, self.grid.total - self.grid.n))


class Silent:
    """For processes that have nobody watching."""

    def start(self, label: str, epochs: int) -> None: ...

    def epoch(self) -> None: ...

    def finish(self) -> None: ...
