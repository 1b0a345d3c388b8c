"""Trains a small UNet to take noise away, as diffusion models do.

Problem: none
Needs: torch
"""

import math
import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "16"))


class ResBlock(nn.Module):
    def __init__(self, inputs, outputs, times=64):
        super().__init__()
        self.norm = nn.GroupNorm(4, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(times, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        y = self.conv1(nn.functional.silu(self.norm(x))) + self.time(time)[:, :, None, None]
        return self.conv2(nn.functional.silu(y)) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down1 = ResBlock(width, width)
        self.down2 = ResBlock(width, 2 * width)
        self.middle = ResBlock(2 * width, 2 * width)
        self.up2 = ResBlock(4 * width, width)
        self.up1 = ResBlock(2 * width, width)
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def embedding(self, time):
        rates = torch.exp(-math.log(10_000) * torch.arange(32) / 32)
        angles = time[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], 1)

    def forward(self, x, time):
        time = self.embedding(time)
        a = self.down1(self.first(x), time)
        b = self.down2(nn.functional.avg_pool2d(a, 2), time)
        c = self.middle(nn.functional.avg_pool2d(b, 2), time)
        c = nn.functional.interpolate(c, scale_factor=2)
        d = self.up2(torch.cat([c, b], 1), time)
        d = nn.functional.interpolate(d, scale_factor=2)
        return self.last(self.up1(torch.cat([d, a], 1), time))


torch.manual_seed(0)
unet = UNet()
optimizer = torch.optim.AdamW(unet.parameters(), lr=2e-4, fused=True)
remaining = torch.cos(torch.linspace(0, math.pi / 2, 1000)) ** 2
images = torch.randn(64, 3, 32, 32).clamp(-1, 1)
for step in range(STEPS):
    batch = images[torch.randint(0, 64, (12,))]
    noise = torch.randn_like(batch)
    time = torch.randint(0, 1000, (12,))
    share = remaining[time].view(-1, 1, 1, 1)
    noisy = share.sqrt() * batch + (1 - share).sqrt() * noise
    loss = nn.functional.mse_loss(unet(noisy, time), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
