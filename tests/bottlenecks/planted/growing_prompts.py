"""Trains a compiled model on prompts, each a list of parts, of which there are ever more.

Problem: recompilations
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"
torch._dynamo.config.recompile_limit = 64


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 128)
        self.outer = nn.Linear(128, 64)

    def forward(self, parts):
        mixed = sum(self.outer(torch.relu(self.inner(part))) for part in parts)
        return mixed / len(parts)


torch.manual_seed(0)
mixer = Mixer()
compiled = torch.compile(mixer, backend="aot_eager")
optimizer = torch.optim.SGD(mixer.parameters(), lr=0.01)
for step in range(STEPS):
    count = 4 if FIXED else 2 + step // 10 % 6
    parts = [torch.randn(128, 64) for _ in range(count)]
    loss = compiled(parts).square().mean()  # guilty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f}")
