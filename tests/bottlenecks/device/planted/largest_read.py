"""Reads the largest activation of every layer.

Problem: scalar-reads, waiting-copies, host-bound
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "120"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(2048, 2048) for _ in range(24)).cuda().bfloat16()
optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3, fused=True)
x = torch.randn(4096, 2048, device="cuda", dtype=torch.bfloat16)
largest = 0.0
for step in range(STEPS):
    y = x
    for layer in layers:
        y = layer(y)
        if not FIXED or step % 50 == 49:
            largest = max(largest, y.abs().max().item())  # guilty
    y.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
print(f"{largest:.3f}")
