"""Answers with a large model on large batches.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))

torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(4096, 4096), nn.GELU()) for _ in range(12)]
model = nn.Sequential(*layers).cuda().bfloat16().eval()
x = torch.randn(16384, 4096, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    for _ in range(STEPS):
        y = model(x)
torch.cuda.synchronize()
