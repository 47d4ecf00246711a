"""What the networks of all experiments are trained with."""

import copy
import time
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def epoch(
    optimizer: torch.optim.Optimizer, losses: Iterable[Tensor]
) -> tuple[Tensor, float]:
    """A step for each loss, which is computed when its turn comes. Returns the losses,
    and the processor seconds: other work on the machine is left out."""
    begin = time.process_time()
    found = torch.stack([step(optimizer, loss) for loss in losses])
    return found, time.process_time() - begin


class Best:
    """The parameters of a model where its score was highest; the first of equals."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.score, self.when = model, None, 0

    def offer(self, score: Any, when: int) -> None:
        if self.score is None or score > self.score:
            self.score, self.when = score, when
            self._state = copy.deepcopy(self.model.state_dict())

    def restore(self) -> None:
        self.model.load_state_dict(self._state)


def num_parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def significant(value: float, digits: int = 6) -> float:
    """Rounded to that many digits, as far as a record needs them."""
    return float(f"{value:.{digits}g}")
