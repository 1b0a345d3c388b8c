"""Trains a model and keeps a smoothed copy of it.

Problem: library-call, redundant-copies, python-work
Needs: torch
"""

import copy
import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "90"))
FIXED = os.environ.get("FIXED") == "1"


def smoothed(average, model, decay=0.99):
    if FIXED:
        for kept, new in zip(average.parameters(), model.parameters(), strict=True):
            kept.detach().lerp_(new.detach(), 1 - decay)
        return average
    new = copy.deepcopy(model)  # guilty
    for kept, weight in zip(average.parameters(), new.parameters(), strict=True):
        weight.data = kept.data * decay + weight.data * (1 - decay)
    return new


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate, self.value = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        y = self.norm(x)
        return x + torch.sigmoid(self.gate(y)) * self.value(y)


torch.manual_seed(0)
model = nn.Sequential(*(Cell(64) for _ in range(16)), nn.Linear(64, 4))
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(128, 64), torch.randint(0, 4, (128,))
for _ in range(STEPS):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average = smoothed(average, model)  # guilty
print(f"{loss.item():.3f}")
