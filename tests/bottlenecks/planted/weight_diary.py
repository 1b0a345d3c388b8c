"""Trains a model and writes its outputs into a diary, as text.

Problem: scalar-reads, logging
Needs: torch
"""

import os
import tempfile

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "120"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
torch.set_printoptions(threshold=4000)
model = nn.Sequential(nn.Linear(100, 600), nn.Sigmoid(), nn.Linear(600, 20))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
x, y = torch.randn(400, 100), torch.randn(400, 20)

with tempfile.TemporaryFile("w") as diary:
    for step in range(STEPS):
        out = model(x)
        loss = (out - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not FIXED:
            print("step", step, out[:50], file=diary)  # guilty
    print(f"{loss.item():.3f}")
