"""Trains a small network with Paddle under its profiler; only the import is Stepscope's.

Run it with `python examples/paddle_train.py`. The summary is printed, the trace is written into the
folder that --out names.
"""

from __future__ import annotations

import argparse

import numpy as np
import paddle
from paddle.io import DataLoader, Dataset

import stepscope.paddle as profiler


class RandomData(Dataset):
    """Points and what a random linear function makes of them."""

    def __init__(self, length: int) -> None:
        rng = np.random.default_rng(0)
        self._inputs = rng.standard_normal((length, 13)).astype("float32")
        self._targets = self._inputs @ rng.standard_normal((13, 1)).astype("float32")

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return self._inputs[index], self._targets[index]


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit random data with Paddle.")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--out", default="profiler_demo", help="the folder for the trace")
    args = parser.parse_args()

    paddle.seed(0)
    model = paddle.nn.Sequential(
        paddle.nn.Linear(13, 64), paddle.nn.ReLU(), paddle.nn.Linear(64, 1)
    )
    optimizer = paddle.optimizer.Momentum(learning_rate=0.01, parameters=model.parameters())
    loader = DataLoader(RandomData(args.steps * args.batch), batch_size=args.batch)

    with profiler.Profiler(
        scheduler=(5, 9),
        on_trace_ready=profiler.export_chrome_tracing(args.out),
        record_shapes=True,
        profile_memory=True,
    ) as prof:
        for step, (inputs, targets) in enumerate(loader):
            with profiler.RecordEvent("loss"):
                loss = paddle.nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            prof.step(num_samples=args.batch)
            if step % 10 == 9:
                print(f"step {step}: loss {float(loss):.3f},{prof.step_info('points')}")
    prof.summary(row_limit=10)


if __name__ == "__main__":
    main()
