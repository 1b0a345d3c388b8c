"""Trains a new head on a backbone whose weights stay as they are.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "40"))


class Backbone(nn.Module):
    def __init__(self, channels=32):
        super().__init__()
        self.enter = nn.Conv2d(3, channels, 3, 2, 1)
        self.blocks = nn.ModuleList(nn.Conv2d(channels, channels, 3, 1, 1) for _ in range(4))

    def forward(self, images):
        hidden = self.enter(images).relu()
        for block in self.blocks:
            hidden = hidden + block(hidden).relu()
        return hidden.mean((2, 3))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone().requires_grad_(False)
        self.head = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images):
        return self.head(self.backbone(images))


torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
images, labels = torch.randn(64, 3, 48, 48), torch.randint(0, 10, (64,))
for _ in range(STEPS):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
