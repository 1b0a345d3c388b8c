"""Trains a small network with as many threads as the last machine had cores.

Problem: too-many-threads
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "70"))
FIXED = os.environ.get("FIXED") == "1"

if not FIXED:
    torch.set_num_threads(64)  # guilty

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.Conv2d(16, 16, 3, stride=2, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(16 * 16 * 16, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
for _ in range(STEPS):
    loss = nn.functional.cross_entropy(model(images), labels)  # guilty
    optimizer.zero_grad()
    loss.backward()  # guilty
    optimizer.step()
print(f"{loss.item():.3f}")
