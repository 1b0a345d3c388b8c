"""Solves small systems of equations in many threads, each of which has BLAS use all cores, too.

Problem: too-many-threads, gil-contention
Needs: numpy
"""

import os

if os.environ.get("FIXED") != "1":
    os.environ["OPENBLAS_NUM_THREADS"] = "16"  # guilty
else:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

from concurrent.futures import ThreadPoolExecutor

import numpy as np

STEPS = int(os.environ.get("STEPS", "200"))
THREADS = 2 if os.environ.get("FIXED") == "1" else 16


def solve(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(200, 200)) + 20 * np.eye(200)
    for _ in range(4):
        matrix = np.linalg.solve(matrix, np.eye(200)) + np.eye(200)  # guilty
    return float(matrix.trace())


with ThreadPoolExecutor(THREADS) as pool:  # guilty
    traces = list(pool.map(solve, range(STEPS)))  # guilty
print(f"{sum(traces):.1f}")
