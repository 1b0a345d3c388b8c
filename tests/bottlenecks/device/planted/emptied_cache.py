"""Empties the allocator's cache in every step.

Problem: driver-allocations
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda().bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(16384, 2048, device="cuda", dtype=torch.bfloat16)
for _ in range(STEPS):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if not FIXED:
        torch.cuda.empty_cache()  # guilty
torch.cuda.synchronize()
