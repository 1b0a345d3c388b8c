"""NumPy: work in C without the interpreter's lock."""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # one thread's clock sees all of it

import numpy as np
from own_truth import book, burn, cpu_ns, run_one, timed

MATRIX = np.ones((300, 300))


@timed
def multiply() -> None:
    end = cpu_ns() + 20_000_000
    with book.cause("c"):
        while cpu_ns() < end:
            MATRIX @ MATRIX


@timed
def shuffle() -> None:
    end = cpu_ns() + 10_000_000
    with book.cause("c"):
        while cpu_ns() < end:
            np.sort(MATRIX, axis=None)


@timed
def count() -> None:
    with book.cause("python"):
        burn(10)


def pipeline() -> None:
    for _ in range(30):
        multiply()
        shuffle()
        count()


def only_products() -> None:
    for _ in range(50):
        multiply()


run_one({"pipeline": pipeline, "products": only_products})
