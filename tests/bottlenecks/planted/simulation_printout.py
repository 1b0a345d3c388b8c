"""Simulates bouncing balls and writes down where each one is. NumPy only.

Problem: logging, python-work, waiting-io
Needs: numpy
"""

import os
import tempfile

import numpy as np

STEPS = int(os.environ.get("STEPS", "200"))
FIXED = os.environ.get("FIXED") == "1"
BALLS = 450


def report(step, places, file):
    for number, (x, y) in enumerate(places):
        print(
            f"step {step:4} ball {number:5} at {x:8.3f} {y:8.3f}", file=file, flush=True
        )  # guilty


def move(places, speeds):
    speeds[:, 1] -= 0.01
    places += speeds
    outside = (places < 0) | (places > 10)
    speeds[outside] *= -0.9
    np.clip(places, 0, 10, out=places)
    gaps = places[:, None] - places[None]
    near = np.square(gaps).sum(-1) < 0.01
    return int(near.sum()) - len(places)


rng = np.random.default_rng(0)
places, speeds = rng.uniform(0, 10, (BALLS, 2)), rng.normal(0, 0.1, (BALLS, 2))
touched = 0
with tempfile.TemporaryFile("w") as file:
    for step in range(STEPS):
        touched += move(places, speeds)
        if not FIXED or step % 100 == 0:
            report(step, places, file)  # guilty
print(touched)
