"""Measures the validation loss of a model that restores images.

Problem: graph-kept, memory-growth, autograd-in-inference
Needs: torch
Gain: not of time
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "110"))
FIXED = os.environ.get("FIXED") == "1"


class Restorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 24, 3, 2, 1)
        self.up = nn.ConvTranspose2d(24, 3, 4, 2, 1)

    def forward(self, images):
        return self.up(torch.relu(self.down(images)))


torch.manual_seed(0)
model = Restorer().eval()
images = torch.rand(8, 3, 96, 96)
total = 0.0
for step in range(STEPS):
    noisy = images + 0.1 * torch.randn_like(images)
    with torch.set_grad_enabled(not FIXED):
        loss = (model(noisy) - images).abs().mean()  # guilty
    total += loss  # guilty
print(f"{total.item() / STEPS:.3f}")
