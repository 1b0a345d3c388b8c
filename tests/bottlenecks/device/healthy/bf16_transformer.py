"""Trains a transformer in bfloat16, with fused attention and optimizer.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "40"))

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True, dropout=0.0)
model = nn.TransformerEncoder(layer, 6).cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
x = torch.randn(16, 1024, 1024, device="cuda", dtype=torch.bfloat16)
for _ in range(STEPS):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
