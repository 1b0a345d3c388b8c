"""Solves small systems of equations, with as many threads for BLAS as the cluster's nodes have.

Problem: too-many-threads
Needs: numpy
"""

import os

FIXED = os.environ.get("FIXED") == "1"
if not FIXED:
    os.environ["OPENBLAS_NUM_THREADS"] = "8"  # guilty

import numpy as np

STEPS = int(os.environ.get("STEPS", "100"))
NODES = 160


def stiffness(rng):
    """A beam whose parts all hold each other a little."""
    parts = rng.normal(size=(NODES, NODES)) * 0.05
    return parts @ parts.T + np.eye(NODES)  # guilty


def main():
    rng = np.random.default_rng(0)
    loads = rng.normal(size=(NODES, 8))
    worst = 0.0
    for _ in range(STEPS):
        bent = np.linalg.solve(stiffness(rng), loads)  # guilty
        smooth = np.sort(np.abs(bent), axis=0)
        worst = max(worst, float(smooth[-5:].mean()))
    print(f"{worst:.3f}")


if __name__ == "__main__":
    main()
