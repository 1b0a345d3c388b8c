"""Trains and collects garbage in every step, so that memory stays low.

Problem: garbage-collection
Needs: torch
"""

import gc
import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "40"))
FIXED = os.environ.get("FIXED") == "1"


class Trainer:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(300, 1000), nn.ReLU(), nn.Linear(1000, 300))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def free_memory(self) -> None:
        if not FIXED:
            gc.collect()  # guilty

    def step(self, batch: torch.Tensor) -> float:
        loss = nn.functional.mse_loss(self.model(batch), batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.free_memory()  # guilty
        return loss.item()


trainer = Trainer()
for _ in range(STEPS):
    loss = trainer.step(torch.randn(512, 300))
print(f"{loss:.3f}")
