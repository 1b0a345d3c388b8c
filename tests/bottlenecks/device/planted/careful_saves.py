"""Saves the weights in every step.

Problem: checkpoint-every-step
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "40"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(6))).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
x = torch.randn(16384, 2048, device="cuda")
for step in range(STEPS):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if not FIXED or step % 20 == 19:
        torch.save(model.state_dict(), "weights.pt")  # guilty
torch.cuda.synchronize()
