"""Updates many weights one by one.

Problem: unfused-optimizer
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "80"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
model = nn.Sequential(*(nn.Sequential(nn.Linear(128, 128), nn.ReLU()) for _ in range(60))).cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False, fused=FIXED)
x = torch.randn(16384, 128, device="cuda")
for _ in range(STEPS):
    model(x).square().mean().backward()
    optimizer.step()  # guilty
    optimizer.zero_grad()
torch.cuda.synchronize()
