"""A program that feeds its device crumbs: small tensors, many operators, and a wait in every step.

On a GPU the device is idle most of the time; without one the program runs all the same, and shows
an optimizer of many small operators.

Profile it with `stepscope run examples/host_bound.py`,
and again with `--better`.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--better", action="store_true", help="a large batch, fused, no waiting")
    better = parser.parse_args().better

    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(48))).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), fused=better, foreach=False)
    rows = 8192 if better else 8
    total = torch.zeros((), device=DEVICE)
    for _ in range(10):
        batch = torch.randn(rows, 64, device=DEVICE)
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if better:
            total += loss.detach()  # stays on the device
        else:
            total += loss.item()  # waits for it
    print(f"mean loss {total.item() / 10:.4f}")


if __name__ == "__main__":
    main()
