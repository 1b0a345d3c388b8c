"""Trains a small vision transformer and notes its losses.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "30"))


class VisionTransformer(nn.Module):
    def __init__(self, width=192, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.position = nn.Parameter(torch.zeros(1, 64, width))
        layer = nn.TransformerEncoderLayer(width, 3, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.position
        return self.head(self.encoder(tokens).mean(dim=1))


torch.manual_seed(0)
model = VisionTransformer()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
losses = []
for _ in range(STEPS):
    images, labels = torch.rand(16, 3, 64, 64), torch.randint(0, 10, (16,))
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    schedule.step()
    losses.append(loss.item())
print(f"{sum(losses) / len(losses):.3f}")
