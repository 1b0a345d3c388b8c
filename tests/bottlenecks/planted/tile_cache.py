"""Renders tiles of a map, and keeps every one in case that it is asked for again. NumPy only.

Problem: memory-growth
Needs: numpy
Gain: not of time
"""

import os

import numpy as np

STEPS = int(os.environ.get("STEPS", "260"))
FIXED = os.environ.get("FIXED") == "1"
SIZE = 512
_tiles = {}


def heights(x, y, zoom):
    across = np.linspace(x, x + 1, SIZE) / 2**zoom
    down = np.linspace(y, y + 1, SIZE)[:, None] / 2**zoom
    return np.sin(7 * across) * np.cos(5 * down) + 0.3 * np.sin(31 * across * down)


def tile(x, y, zoom):
    key = (x, y, zoom)
    if key not in _tiles:
        if FIXED and len(_tiles) >= 8:
            _tiles.pop(next(iter(_tiles)))
        _tiles[key] = heights(x, y, zoom).astype(np.float32)  # guilty
    return _tiles[key]


brightest = 0.0
for step in range(STEPS):
    picture = tile(step % 20, step // 20, 5)
    slope = np.hypot(*np.gradient(picture))
    shaded = np.clip(1 / np.sqrt(1 + 4000 * slope**2), 0.2, 1)
    brightest = max(brightest, float(shaded.mean()))
print(f"{brightest:.3f}")
