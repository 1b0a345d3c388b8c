"""Trains an image classifier whose configuration must not change on the way.

Problem: python-work
Needs: torch
Files: toolbox/checks.py
"""

import os

import torch
from toolbox.checks import frozen_config
from torch import nn

STEPS = int(os.environ.get("STEPS", "80"))
FIXED = os.environ.get("FIXED") == "1"
CONFIG = {
    "model": {"widths": [32, 64], "classes": 10},
    "data": {"files": [f"shard-{i:05}.tar" for i in range(6000)], "mean": [0.5] * 3},
    "optimizer": {"lr": 0.01, "schedule": [0.1 ** (i // 100) for i in range(2000)]},
}

torch.manual_seed(CONFIG["model"]["classes"])
first, second = CONFIG["model"]["widths"]
model = nn.Sequential(
    nn.Conv2d(3, first, 3, 2, 1),
    nn.ReLU(),
    nn.Conv2d(first, second, 3, 2, 1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(second, CONFIG["model"]["classes"]),
)
optimizer = torch.optim.SGD(model.parameters(), lr=CONFIG["optimizer"]["lr"])


@frozen_config(CONFIG, always=not FIXED)
def train_step(images, labels):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss


images, labels = torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))
for _ in range(STEPS):
    loss = train_step(images, labels)  # guilty
print(f"{loss.item():.3f}")
