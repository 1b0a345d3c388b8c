"""Sorts photos by their quality; they are scaled down with Pillow in the loop.

Problem: data-in-loop, library-call
Needs: torch, PIL
"""

import io
import os
import random

import numpy as np
import torch
from PIL import Image
from torch import nn

STEPS = int(os.environ.get("STEPS", "50"))
FIXED = os.environ.get("FIXED") == "1"


def photo(seed):
    """A JPEG file, in memory."""
    small = np.random.default_rng(seed).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(small).resize((640, 480)).save(file, "JPEG")
    return file.getvalue()


def load(data):
    image = Image.open(io.BytesIO(data)).convert("RGB")  # guilty
    image = image.resize((96, 96), Image.Resampling.LANCZOS)  # guilty
    return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255


photos = [photo(seed) for seed in range(24)]
small = [load(data) for data in photos]
torch.manual_seed(0)
random.seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 5, 4), nn.ReLU(), nn.Conv2d(16, 64, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
)
model.extend([nn.Flatten(), nn.Linear(64, 1)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    chosen = random.sample(range(24), 8)
    images = [small[i] if FIXED else load(photos[i]) for i in chosen]  # guilty
    loss = (model(torch.stack(images)) - 0.5).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f}")
