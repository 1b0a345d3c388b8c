"""Reads statistics of every layer's activations.

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
model = nn.Sequential(*layers)
x = torch.randn(8192, 2048, device="cuda", dtype=torch.bfloat16)
seen = []


def watch(_layer, _inputs, output):
    if not FIXED:
        seen.append((output.max().item(), output.min().item(), output.mean().item()))  # guilty


for layer in layers:
    layer.register_forward_hook(watch)
with torch.inference_mode():
    for _ in range(STEPS):
        model(x)  # guilty
torch.cuda.synchronize()
