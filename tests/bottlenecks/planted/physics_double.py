"""Fits a network to a simulation whose results NumPy keeps in float64.

Problem: float64
Needs: torch
"""

import os

import numpy as np
import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"


def simulated(count):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(count, 64))
    targets = np.sin(inputs).sum(1, keepdims=True)
    return torch.from_numpy(inputs), torch.from_numpy(targets)


torch.manual_seed(0)
inputs, targets = simulated(512)
hidden = [nn.Linear(512, 512), nn.Tanh()]
model = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), *hidden, nn.Linear(512, 1))
if FIXED:
    inputs, targets = inputs.float(), targets.float()
else:
    model = model.double()  # guilty
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)  # guilty
    loss.backward()  # guilty
    optimizer.step()
print(f"{loss.item():.4f}")
