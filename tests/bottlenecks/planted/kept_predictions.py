"""Trains a segmentation model and keeps what it predicted, to look at it later.

Problem: memory-growth
Needs: torch
Gain: not of time
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "50"))
FIXED = os.environ.get("FIXED") == "1"


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, images):
        return self.head(self.body(images))


class Run:
    def __init__(self):
        self.model = Segmenter()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.predictions = []

    def step(self, images, masks):
        scores = self.model(images)
        loss = nn.functional.cross_entropy(scores, masks)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        probabilities = scores.detach().softmax(1)
        if FIXED:
            self.predictions = [probabilities]
        else:
            self.predictions.append(probabilities)  # guilty
        return loss


torch.manual_seed(0)
run = Run()
images, masks = torch.randn(8, 3, 96, 96), torch.randint(0, 4, (8, 96, 96))
for _ in range(STEPS):
    loss = run.step(images, masks)
print(f"{loss.item():.3f}")
