"""Waits for a dataset that decodes slowly in the main process.

Problem: data-loading
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "50"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 64 * STEPS

    def __getitem__(self, index):
        values = [(index * 31 + i) % 255 for i in range(3072)]  # guilty
        return torch.tensor(values, dtype=torch.float32).repeat(4)[:12288]  # guilty


model = nn.Sequential(nn.Linear(12288, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
loader = torch.utils.data.DataLoader(Pictures(), 64, num_workers=6 if FIXED else 0)
for x in loader:  # guilty
    model(x.cuda()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
