"""Trains a convolutional network in mixed precision, channels last.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))

torch.manual_seed(0)


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


sizes = (64, 128, 256, 512)
layers = [block(a, b) for a, b in zip((3, *sizes), sizes, strict=False)]
model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 14 * 14, 100)).cuda()
model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(256, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
y = torch.randint(100, (256,), device="cuda")
for _ in range(STEPS):
    with torch.autocast("cuda", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
