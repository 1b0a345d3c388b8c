"""Trains on a table whose columns are brought to one scale, one after the other.

Problem: tiny-operators, python-work
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "180"))
FIXED = os.environ.get("FIXED") == "1"


class Scale(nn.Module):
    def forward(self, table):
        if FIXED:
            return (table - table.mean(0)) / (table.std(0) + 1e-6)
        columns = [self.scaled(table[:, i]) for i in range(table.shape[1])]  # guilty
        return torch.stack(columns, 1)

    def scaled(self, column):
        return (column - column.mean()) / (column.std() + 1e-6)  # guilty


torch.manual_seed(0)
model = nn.Sequential(Scale(), nn.Linear(200, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
table, target = torch.randn(128, 200), torch.randn(128, 1)
for _ in range(STEPS):
    loss = nn.functional.huber_loss(model(table), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
