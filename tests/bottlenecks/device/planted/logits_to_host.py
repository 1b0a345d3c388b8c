"""Copies all logits of a model back in every step.

Problem: exposed-copies, scalar-reads, waiting-copies
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 32000)).cuda().bfloat16()
x = torch.randn(4096, 2048, device="cuda", dtype=torch.bfloat16)
remaining = 0
with torch.inference_mode():
    for _ in range(STEPS):
        logits = model(x)
        if FIXED:
            remaining += logits.argmax(-1).numel()
        else:
            remaining += logits.cpu().numel()  # guilty
torch.cuda.synchronize()
print(remaining)
