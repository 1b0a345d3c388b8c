"""Runs photographs through a chain of filters, each of which is careful with its input. NumPy only.

Problem: redundant-copies, python-work, library-call
Needs: numpy
"""

import os

import numpy as np

STEPS = int(os.environ.get("STEPS", "120"))
FIXED = os.environ.get("FIXED") == "1"


def filtered(step):
    """Make a filter safe: it gets float64, and a copy of its own."""

    def safe(image):
        if FIXED:
            return step(image)
        image = image.astype(np.float64).copy()  # guilty
        return step(image).astype(np.float32).copy()  # guilty

    return safe


@filtered
def brighter(image):
    image *= 1.01
    return image


@filtered
def toned(image):
    return np.tanh(1.3 * image)


@filtered
def clipped(image):
    return np.clip(image, 0, 1, out=image)


@filtered
def darker(image):
    image -= 0.01
    return image


photo = np.random.default_rng(0).random((1200, 900), dtype=np.float32)
for _ in range(STEPS):
    for step in (brighter, toned, clipped, darker):
        photo = step(photo)  # guilty
print(f"{photo.mean():.3f}")
