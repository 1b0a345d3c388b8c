"""Loads, transforms and solves with NumPy: no framework is needed to see where the time goes.

Profile it with `stepscope run examples/numpy_pipeline.py`. Run plainly, as
`python examples/numpy_pipeline.py`, the ranges cost next to nothing.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from stepscope import record_function

Matrix = NDArray[np.float64]


def load(rng: np.random.Generator, rows: int, columns: int) -> tuple[Matrix, Matrix]:
    with record_function("load"):
        inputs = rng.standard_normal((rows, columns))
        weights = rng.standard_normal(columns)
        return inputs, inputs @ weights + 0.1 * rng.standard_normal(rows)


@record_function("transform")
def transform(inputs: Matrix) -> Matrix:
    with record_function("normalize"):
        inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    with record_function("add features"):
        return np.hstack([inputs, np.tanh(inputs), np.ones((len(inputs), 1))])


@record_function("solve")
def solve(features: Matrix, targets: Matrix) -> float:
    with record_function("normal equations"):
        gram = features.T @ features + 1e-3 * np.eye(features.shape[1])
        moments = features.T @ targets
    with record_function("factorize"):
        weights = np.linalg.solve(gram, moments)
    with record_function("residual"):
        return float(np.sqrt(np.mean((features @ weights - targets) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit random data, batch by batch.")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--columns", type=int, default=50)
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    errors = []
    for batch in range(args.batches):
        with record_function("batch", str(batch)):
            inputs, targets = load(rng, args.rows, args.columns)
            errors.append(solve(transform(inputs), targets))
    print(f"{args.batches} batches, mean error {np.mean(errors):.4f}")


if __name__ == "__main__":
    main()
