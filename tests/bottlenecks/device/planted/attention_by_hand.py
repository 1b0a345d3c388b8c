"""Writes attention out: scores, softmax, product.

Problem: unfused-attention
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "40"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.project(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if FIXED:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5  # guilty
            mixed = scores.softmax(-1) @ v  # guilty
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


model = nn.Sequential(*(Attention(1024, 16) for _ in range(4))).cuda().bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(8, 2048, 1024, device="cuda", dtype=torch.bfloat16)
for _ in range(STEPS):
    model(x).square().mean().backward()  # guilty
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
