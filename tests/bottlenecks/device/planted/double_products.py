"""Multiplies matrices in float64.

Problem: float64
Needs: torch
"""

import os

import torch

STEPS = int(os.environ.get("STEPS", "80"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
kind = torch.float32 if FIXED else torch.float64
a = torch.randn(4096, 4096, device="cuda", dtype=kind)
b = torch.randn(4096, 4096, device="cuda", dtype=kind)
for _ in range(STEPS):
    c = a @ b  # guilty
    a = c / c.norm() * 64
torch.cuda.synchronize()
