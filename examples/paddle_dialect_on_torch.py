"""Trains with PyTorch under the API of paddle.profiler: the dialect does not ask for Paddle.

Run it with `python examples/paddle_dialect_on_torch.py`. The summary is printed; --out names a
protobuf file that Paddle's own tools read.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import stepscope.paddle as profiler
from stepscope.paddle import ProfilerTarget, SortedKeys


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit random data with PyTorch.")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--out", default="torch.paddle_trace.pb")
    args = parser.parse_args()

    torch.manual_seed(0)
    inputs = torch.randn(args.steps * args.batch, 13)
    loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), args.batch)
    model = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    prof = profiler.Profiler(
        targets=[ProfilerTarget.CPU],
        scheduler=profiler.make_scheduler(closed=1, ready=2, record=3, repeat=1),
        on_trace_ready=lambda prof: prof.export(args.out, format="pb"),
        with_flops=True,
    )
    prof.start()
    for points, targets in loader:
        loss = nn.functional.mse_loss(model(points), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        prof.step(num_samples=len(points))
    prof.stop()
    prof.summary(sorted_by=SortedKeys.CPUTotal, op_detail=False, time_unit="us", row_limit=10)

    threads = profiler.load_profiler_result(args.out).get_data()
    print(f"{args.out}: {len(threads)} threads, for Paddle's own tools")


if __name__ == "__main__":
    main()
