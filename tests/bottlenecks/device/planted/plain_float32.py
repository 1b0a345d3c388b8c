"""Trains in float32 without tensor cores.

Problem: float32-products
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "25"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
torch.set_float32_matmul_precision("high" if FIXED else "highest")
model = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(4))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(8192, 4096, device="cuda")
for _ in range(STEPS):
    model(x).square().mean().backward()  # guilty
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
