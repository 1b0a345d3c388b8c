"""Follows the vibrations of a beam, with as many threads as the nodes of the cluster have.

Problem: too-many-threads
Needs: torch
"""

import os

FIXED = os.environ.get("FIXED") == "1"
if not FIXED:
    os.environ["OMP_NUM_THREADS"] = "24"  # guilty

import torch

STEPS = int(os.environ.get("STEPS", "600"))
PARTS = 150_000


def main():
    torch.manual_seed(0)
    bent, speed = torch.randn(PARTS), torch.zeros(PARTS)
    for _ in range(STEPS):
        force = bent.roll(1) + bent.roll(-1) - 2 * bent  # guilty
        speed = 0.999 * speed + 0.01 * torch.tanh(force)  # guilty
        bent = bent + 0.01 * speed  # guilty
    print(f"{bent.abs().mean():.3f}")


if __name__ == "__main__":
    main()
