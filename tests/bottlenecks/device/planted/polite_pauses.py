"""Sleeps between the steps.

Problem: waiting-sleep
Needs: torch
"""

import os
import time

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "100"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096)).cuda().bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
for _ in range(STEPS):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    if not FIXED:
        time.sleep(0.02)  # guilty
