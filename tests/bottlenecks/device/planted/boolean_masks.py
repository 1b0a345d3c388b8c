"""Selects tokens by boolean masks, which wait for the device.

Problem: waiting-copies, scalar-reads, host-bound
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(40)).cuda().bfloat16()
x = torch.randn(8192, 1024, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    for _ in range(STEPS):
        y = x
        for layer in layers:
            y = layer(y)
            keep = y[:, 0] > -10
            y = torch.where(keep[:, None], y, 0) if FIXED else y[keep]  # guilty
torch.cuda.synchronize()
