"""Simulates waves on water. NumPy only, all of it vectorised.

Problem: none
Needs: numpy
"""

import os

import numpy as np

STEPS = int(os.environ.get("STEPS", "500"))
SIZE = 700


def advance(now, before, speed, after):
    """Put the next state into ``after``, without any other array of that size."""
    inner = after[1:-1, 1:-1]
    np.add(now[:-2, 1:-1], now[2:, 1:-1], out=inner)
    inner += now[1:-1, :-2]
    inner += now[1:-1, 2:]
    inner *= speed
    inner += (2 - 4 * speed) * now[1:-1, 1:-1]
    inner -= before[1:-1, 1:-1]
    inner *= 0.999
    return after


axis = np.linspace(-4, 4, SIZE)
now = np.exp(-(axis[:, None] ** 2 + axis**2) * 8)
before, after = now.copy(), np.zeros_like(now)
energy = []
for step in range(STEPS):
    after = advance(now, before, 0.2, after)
    before, now, after = now, after, before
    if step % 50 == 0:
        energy.append(float(np.square(now).sum()))
print([round(item, 1) for item in energy])
