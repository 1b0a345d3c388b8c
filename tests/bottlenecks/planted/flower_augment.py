"""Trains a classifier of flowers; each batch is augmented where it is used.

Problem: data-in-loop, python-work
Needs: torch
"""

import os

import numpy as np
import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "80"))
FIXED = os.environ.get("FIXED") == "1"
SIZE = 64


def augmented(images, rng):
    """Crop, flip, turn and brighten every picture of a batch."""
    made = []
    for image in images:
        top, left = rng.integers(0, 8, 2)
        crop = image[top : top + SIZE, left : left + SIZE]
        if rng.random() < 0.5:
            crop = crop[:, ::-1]
        crop = crop.astype(np.float64) / 255.0
        crop = np.clip((crop - crop.mean()) * rng.uniform(0.8, 1.2) + 0.5, 0, 1)  # guilty
        noise = rng.normal(0, 0.02, crop.shape)  # guilty
        made.append(np.clip(crop + noise, 0, 1).astype(np.float32))  # guilty
    return np.stack(made).transpose(0, 3, 1, 2)


class Flowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 24, 4, 4), nn.ReLU(), nn.Conv2d(24, 48, 2, 2), nn.ReLU()
        )
        self.head = nn.Linear(48, 5)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


rng = np.random.default_rng(0)
torch.manual_seed(0)
pictures = rng.integers(0, 256, (64, SIZE + 8, SIZE + 8, 3), dtype=np.uint8)
labels = torch.randint(0, 5, (64,))
model = Flowers()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
prepared = [np.ascontiguousarray(augmented(pictures, rng)) for _ in range(4 if FIXED else 0)]
for step in range(STEPS):
    if FIXED:
        batch = prepared[step % 4]
    else:
        batch = np.ascontiguousarray(augmented(pictures, rng))  # guilty
    loss = nn.functional.cross_entropy(model(torch.from_numpy(batch)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
