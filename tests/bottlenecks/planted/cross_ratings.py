"""Scores ratings with a model of crossed features, in evaluation mode.

Problem: autograd-in-inference
Needs: torch
"""

import os
from contextlib import nullcontext

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "180"))
FIXED = os.environ.get("FIXED") == "1"


class Cross(nn.Module):
    """Multiplies the features with themselves, again and again."""

    def __init__(self, width, depth):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(width) / width for _ in range(depth))
        self.biases = nn.ParameterList(torch.zeros(width) for _ in range(depth))

    def forward(self, first):
        x = first
        for weight, bias in zip(self.weights, self.biases, strict=True):
            x = torch.relu(first * (x * weight) + bias) + x
        return x


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(2000, 128), Cross(128, 10), nn.Linear(128, 1))
model.eval()
scores = []
for _ in range(STEPS):
    users = torch.randint(0, 2000, (4096,))
    with torch.no_grad() if FIXED else nullcontext():
        ratings = model(users)  # guilty
    scores.append(ratings.detach().mean().item())
print(f"{sum(scores) / STEPS:.4f}")
