"""Trains a network of many small layers with Adam.

Problem: unfused-optimizer
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "50"))
FIXED = os.environ.get("FIXED") == "1"


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x):
        return self.net(x)


class Mixture(nn.Module):
    def __init__(self, width=48, experts=60):
        super().__init__()
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))
        self.router = nn.Linear(width, experts)

    def forward(self, x):
        weights = self.router(x).softmax(-1)
        return sum(weights[:, i, None] * each(x) for i, each in enumerate(self.experts))


torch.manual_seed(0)
model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=FIXED or None)  # guilty
x = torch.randn(64, 48)
for _ in range(STEPS):
    loss = nn.functional.mse_loss(model(x), x.roll(1, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # guilty
print(f"{loss.item():.4f}")
