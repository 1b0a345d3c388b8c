"""Trains on batches that lie in pageable memory.

Problem: exposed-copies, waiting-copies
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 16)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
batch = torch.randn(16384, 4096)
if FIXED:
    batch = batch.pin_memory()
on_device = batch.cuda()
copying = torch.cuda.Stream()
for _ in range(STEPS):
    if FIXED:
        x = on_device
        with torch.cuda.stream(copying):
            on_device = batch.cuda(non_blocking=True)
    else:
        x = batch.cuda()  # guilty
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.current_stream().wait_stream(copying)
torch.cuda.synchronize()
