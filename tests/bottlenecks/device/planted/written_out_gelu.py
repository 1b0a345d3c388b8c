"""Writes an activation out as a chain of elementwise operators.

Problem: unfused-chains
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)


def activation(x):
    if FIXED:
        return nn.functional.gelu(x, approximate="tanh")
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)  # guilty
    return 0.5 * x * (1.0 + torch.tanh(inner))  # guilty


weight = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16) / 32
x = torch.randn(65536, 1024, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    for _ in range(STEPS):
        y = x
        for _ in range(6):
            y = activation(y @ weight)  # guilty
torch.cuda.synchronize()
