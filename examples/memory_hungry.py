"""A deep network whose activations all stay alive until the backward pass.

Profile it with `stepscope run --memory --modules examples/memory_hungry.py`,
and again with `--checkpoint`.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def blocks(count: int, width: int) -> nn.Sequential:
    """Return a stack of blocks; each keeps two activations for its backward."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(count)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", action="store_true", help="compute activations twice")
    args = parser.parse_args()

    torch.manual_seed(0)
    model = blocks(16, 256).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        batch = torch.randn(4096, 256, device=DEVICE)
        if args.checkpoint:
            output = checkpoint_sequential(model, 4, batch, use_reentrant=False)
        else:
            output = model(batch)
        loss = output.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
