"""What the networks of all experiments are trained with."""

import copy
from typing import Any

import torch
from torch import Tensor


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


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
