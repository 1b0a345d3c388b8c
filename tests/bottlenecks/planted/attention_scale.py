"""Trains attention whose scale comes from NumPy, and so brings its precision along.

Problem: float64, redundant-copies
Needs: torch
"""

import os

import numpy as np
import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "55"))
FIXED = os.environ.get("FIXED") == "1"


def distances(length):
    """A bias that grows with the distance between two tokens."""
    places = np.arange(length)
    bias = -np.abs(places[:, None] - places[None]) / np.sqrt(length)
    return torch.tensor(bias, dtype=torch.float32) if FIXED else torch.tensor(bias)  # guilty


class Attention(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.bias = distances(length)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2) + self.bias  # guilty
        weights = scores.softmax(-1)  # guilty
        return self.out(weights.to(v.dtype) @ v)


torch.manual_seed(0)
model = nn.Sequential(Attention(32, 256), nn.Tanh(), Attention(32, 256), nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(12, 256, 32), torch.randint(0, 8, (12 * 256,))
for _ in range(STEPS):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y)
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
