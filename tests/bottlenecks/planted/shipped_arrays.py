"""Sends a large array to a pool of processes with each of their small tasks.

Problem: waiting-lock
Needs: numpy
"""

import multiprocessing
import os

import numpy as np

STEPS = int(os.environ.get("STEPS", "30"))
FIXED = os.environ.get("FIXED") == "1"
RECORDS = np.random.default_rng(0).random(2_000_000)


def largest_of(task):
    records, first = task
    return float(records[first : first + 20_000].max())


def largest(first):
    return float(RECORDS[first : first + 20_000].max())


def main():
    found = []
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for step in range(STEPS):
            starts = range(step * 1000, step * 1000 + 80_000, 20_000)
            if FIXED:
                found += pool.map(largest, starts)
            else:
                found += pool.map(largest_of, [(RECORDS, start) for start in starts])  # guilty
    print(f"{max(found):.3f}")


if __name__ == "__main__":
    main()
