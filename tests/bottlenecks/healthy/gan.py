"""Trains a generator against a discriminator, with an optimizer each.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "20"))
BATCH, NOISE = 48, 64


def generator():
    return nn.Sequential(
        nn.ConvTranspose2d(NOISE, 64, 4, 1, 0),
        nn.BatchNorm2d(64),
        nn.ReLU(True),
        nn.ConvTranspose2d(64, 32, 4, 2, 1),
        nn.BatchNorm2d(32),
        nn.ReLU(True),
        nn.ConvTranspose2d(32, 3, 4, 4, 0),
        nn.Tanh(),
    )


def discriminator():
    return nn.Sequential(
        nn.Conv2d(3, 32, 4, 2, 1),
        nn.LeakyReLU(0.2, True),
        nn.Conv2d(32, 64, 4, 2, 1),
        nn.BatchNorm2d(64),
        nn.LeakyReLU(0.2, True),
        nn.Conv2d(64, 1, 8),
        nn.Flatten(),
    )


torch.manual_seed(0)
maker, judge = generator(), discriminator()
maker_optimizer = torch.optim.Adam(maker.parameters(), 2e-4, (0.5, 0.999), fused=True)
judge_optimizer = torch.optim.Adam(judge.parameters(), 2e-4, (0.5, 0.999), fused=True)
bce = nn.BCEWithLogitsLoss()
true, false = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)
photos = torch.rand(256, 3, 32, 32) * 2 - 1
for step in range(STEPS):
    real = photos[torch.randint(0, 256, (BATCH,))]
    fake = maker(torch.randn(BATCH, NOISE, 1, 1))

    judge_optimizer.zero_grad()
    judge_loss = bce(judge(real), true) + bce(judge(fake.detach()), false)
    judge_loss.backward()
    judge_optimizer.step()

    maker_optimizer.zero_grad()
    maker_loss = bce(judge(fake), true)
    maker_loss.backward()
    maker_optimizer.step()
print(f"{judge_loss.item():.3f} {maker_loss.item():.3f}")
