"""Scores a batch in Python while the device waits.

Problem: python-work, data-in-loop, host-bound
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "150"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)


def score(step):
    total = 0
    for i in range(60_000):
        total += (i * step) % 7  # guilty
    return total


model = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048)).cuda().bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(4096, 2048, device="cuda", dtype=torch.bfloat16)
for step in range(STEPS):
    weight = 1.0 if FIXED else 1.0 + 1e-9 * score(step)  # guilty
    (model(x).square().mean() * weight).backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
