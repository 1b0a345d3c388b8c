"""Fits a network with LBFGS, which calls the loss itself.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "20"))

torch.manual_seed(0)
inputs = torch.randn(2000, 64)
targets = torch.sin(inputs[:, :1]) + inputs[:, 1:2] ** 2
model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
head = nn.Linear(256, 1)
parameters = [*model.parameters(), *head.parameters()]
optimizer = torch.optim.LBFGS(parameters, lr=0.5, max_iter=5, history_size=5)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(head(model(inputs)), targets)
    loss.backward()
    return loss


for _ in range(STEPS):
    loss = optimizer.step(closure)
print(f"{loss.item():.3f}")
