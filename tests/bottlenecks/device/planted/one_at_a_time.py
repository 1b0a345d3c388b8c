"""Answers requests one by one with a deep, narrow model.

Problem: tiny-kernels, host-bound, tiny-operators
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "20"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))  # guilty


model = nn.Sequential(*(Block(256) for _ in range(24))).cuda().half().eval()
requests = torch.randn(64, 256, device="cuda", dtype=torch.half)
with torch.inference_mode():
    for _ in range(STEPS):
        if FIXED:
            answers = model(requests)
        else:
            answers = [model(request[None]) for request in requests]  # guilty
torch.cuda.synchronize()
