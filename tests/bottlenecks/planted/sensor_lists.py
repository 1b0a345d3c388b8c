"""Trains on readings of sensors, which come as lists of Python numbers.

Problem: tensors-from-lists, data-in-loop
Needs: torch
"""

import os
import random

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "120"))
FIXED = os.environ.get("FIXED") == "1"
SENSORS, READINGS = 256, 300

random.seed(0)
torch.manual_seed(0)
readings = [[random.gauss(0, 1) for _ in range(READINGS)] for _ in range(SENSORS)]
broken = [float(random.random() < 0.1) for _ in range(SENSORS)]
model = nn.Sequential(nn.Linear(READINGS, 256), nn.ReLU(), nn.Linear(256, 256), nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
known = torch.tensor(readings)

for _ in range(STEPS):
    inputs = known if FIXED else torch.tensor(readings)  # guilty
    targets = torch.tensor(broken).unsqueeze(1)
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy_with_logits(model(inputs), targets)
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
