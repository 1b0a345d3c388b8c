"""Trains on one example at a time.

Problem: tiny-operators
Needs: torch
"""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "3000"))
BATCH = 64 if os.environ.get("FIXED") == "1" else 1

torch.manual_seed(0)
examples = torch.randn(STEPS, 16)
data = TensorDataset(examples, examples.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for inputs, targets in DataLoader(data, batch_size=BATCH):  # guilty
    loss = nn.functional.mse_loss(model(inputs), targets)  # guilty
    optimizer.zero_grad()
    loss.backward()  # guilty
    optimizer.step()  # guilty
print(f"{loss.item():.3f}")
