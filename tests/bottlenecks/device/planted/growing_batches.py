"""Compiles a model again for every length.

Problem: recompilations
Needs: torch
"""

import os

import torch

STEPS = int(os.environ.get("STEPS", "28"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)


def block(x):
    y = torch.nn.functional.silu(x) * x
    return y.softmax(-1) + x


run = torch.compile(block, dynamic=FIXED)
sizes = [512 + 64 * (step % 14) for step in range(STEPS)]
for size in sizes:
    x = torch.randn(size, 2048, device="cuda")
    for _ in range(20):
        x = run(x)  # guilty
torch.cuda.synchronize()
