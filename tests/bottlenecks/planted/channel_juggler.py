"""Classifies images with blocks that each bring them into their own layout.

Problem: redundant-copies
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "40"))
FIXED = os.environ.get("FIXED") == "1"


class Block(nn.Module):
    """A scale, an offset and a gate a channel; it wants channels last."""

    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.offset = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        if FIXED:
            return torch.relu(x * self.scale[:, None, None] + self.offset[:, None, None])
        x = x.permute(0, 2, 3, 1).contiguous()  # guilty
        x = torch.relu(x * self.scale + self.offset)
        return x.permute(0, 3, 1, 2).contiguous()  # guilty


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 4, 4)
        self.blocks = nn.Sequential(*(Block(32) for _ in range(6)))
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
images, labels = torch.randn(24, 3, 160, 160), torch.randint(0, 10, (24,))
for _ in range(STEPS):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
