"""Trains a model that tells its log about every layer.

Problem: logging, python-work
Needs: torch
"""

import logging
import os
import tempfile

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "130"))
FIXED = os.environ.get("FIXED") == "1"
log = logging.getLogger("model")


def describe(module, inputs, output):
    for tensor in (*inputs, output):
        log.info("%s: %s %s", module, tuple(tensor.shape), tensor.dtype)  # guilty
    for name, weight in module.named_parameters():
        log.info("  %s: %s, trained: %s", name, tuple(weight.shape), weight.requires_grad)  # guilty


def build():
    torch.manual_seed(0)
    blocks = [[nn.Linear(96, 96), nn.LayerNorm(96), nn.GELU()] for _ in range(12)]
    model = nn.Sequential(*sum(blocks, []), nn.Linear(96, 4))
    for module in model:
        module.register_forward_hook(describe)
    return model


with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
    level = logging.WARNING if FIXED else logging.INFO
    logging.basicConfig(filename=file.name, level=level, format="%(asctime)s %(name)s %(message)s")
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(48, 96), torch.randint(0, 4, (48,))
    for _ in range(STEPS):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.3f}")
