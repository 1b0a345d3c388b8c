"""Trains a value network from a prioritised replay buffer.

Problem: python-work, data-in-loop
Needs: torch
"""

import os
import random

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "80"))
FIXED = os.environ.get("FIXED") == "1"


class ReplayBuffer:
    """Transitions with a priority each; likelier ones are drawn more often."""

    def __init__(self, size: int, width: int) -> None:
        self.states = torch.randn(size, width)
        self.rewards = torch.randn(size)
        self.priorities = [random.random() + 0.1 for _ in range(size)]
        self.weights = torch.tensor(self.priorities)

    def draw(self, count: int) -> torch.Tensor:
        if FIXED:
            return torch.multinomial(self.weights, count, replacement=True)
        return torch.tensor(self._draw_slowly(count))  # guilty

    def _draw_slowly(self, count: int) -> list[int]:
        total = sum(self.priorities)
        chosen = []
        for _ in range(count):
            left = random.random() * total
            index = 0
            while left > self.priorities[index] and index < len(self.priorities) - 1:  # guilty
                left -= self.priorities[index]  # guilty
                index += 1  # guilty
            chosen.append(index)
        return chosen

    def update(self, indices: torch.Tensor, errors: torch.Tensor) -> None:
        self.weights[indices] = errors + 0.1
        for index, error in zip(indices.tolist(), errors.tolist(), strict=True):
            self.priorities[index] = error + 0.1


class Agent:
    def __init__(self) -> None:
        self.network = nn.Sequential(
            nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)
        )
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.01)

    def learn(self, buffer: ReplayBuffer) -> float:
        indices = buffer.draw(128)  # guilty
        values = self.network(buffer.states[indices]).squeeze(1)
        errors = (values - buffer.rewards[indices]).abs()
        loss = errors.square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        buffer.update(indices, errors.detach())
        return loss.item()


random.seed(0)
torch.manual_seed(0)
agent, buffer = Agent(), ReplayBuffer(4000, 64)
losses = [agent.learn(buffer) for _ in range(STEPS)]
print(f"loss {losses[-1]:.3f}")
