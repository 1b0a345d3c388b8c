"""Trains a small residual network and keeps the quantiles of what its layers put out.

Problem: work-without-gradient
Needs: torch
"""

import os
from collections import defaultdict

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "40"))
FIXED = os.environ.get("FIXED") == "1"


class Quantiles:
    """Watches the activations of a model, as hooks of its layers."""

    def __init__(self, model):
        self.seen = defaultdict(list)
        self.calls = 0
        for name, layer in model.named_modules():
            if isinstance(layer, nn.Conv2d | nn.ReLU):
                layer.register_forward_hook(self.watcher(name))

    def watcher(self, name):
        def watch(layer, inputs, output):
            self.calls += 1
            if FIXED and self.calls % 500:
                return
            ordered = output.detach().flatten().sort().values  # guilty
            places = [int(len(ordered) * part) for part in (0.05, 0.5, 0.95)]
            self.seen[name].append([float(ordered[place]) for place in places])

        return watch


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, 1, 1)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1)
        self.act = nn.ReLU()

    def forward(self, inputs):
        return self.act(inputs + self.second(self.act(self.first(inputs))))


torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 24, 3, 2, 1),
    Block(24),
    Block(24),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(24, 10),
)
quantiles = Quantiles(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
images, labels = torch.randn(12, 3, 40, 40), torch.randint(0, 10, (12,))
for _ in range(STEPS):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
