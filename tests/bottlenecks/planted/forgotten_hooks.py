"""Trains a network and looks at the activations of a layer through a hook.

Problem: slowing-steps, python-work
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "100"))
FIXED = os.environ.get("FIXED") == "1"
activations = {}


def remember(name):
    def hook(module, inputs, output):
        values = output.detach()[:64].flatten()
        activations[name] = torch.quantile(values, torch.tensor([0.1, 0.5, 0.9]))  # guilty

    return hook


def train_step(model, optimizer, x, y):
    handle = model[1].register_forward_hook(remember("hidden"))  # guilty
    loss = nn.functional.mse_loss(model(x), y)
    if FIXED:
        handle.remove()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(512, 64), torch.randn(512, 8)
losses = [train_step(model, optimizer, x, y) for _ in range(STEPS)]
print(f"{losses[-1]:.3f}")
