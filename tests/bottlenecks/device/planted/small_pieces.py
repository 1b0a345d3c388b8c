"""Updates a grid cell by cell, with kernels that have nothing to do.

Problem: tiny-kernels, host-bound, tiny-operators
Needs: torch
"""

import os

import torch

STEPS = int(os.environ.get("STEPS", "200"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
grid = torch.randn(64, 256, device="cuda")
for _ in range(STEPS):
    if FIXED:
        grid = torch.tanh(grid * 0.9 + 0.1).relu() - 0.05
        continue
    rows = []
    for row in grid:
        rows.append(torch.tanh(row * 0.9 + 0.1).relu() - 0.05)  # guilty
    grid = torch.stack(rows)
torch.cuda.synchronize()
