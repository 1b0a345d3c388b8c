"""Trains in Paddle; a limiter keeps the steps below a rate that once suited another machine.

Problem: waiting-sleep
Needs: paddle
"""

import os
import time

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "80"))
RATE = 1000.0 if os.environ.get("FIXED") == "1" else 18.0


class RateLimit:
    def __init__(self, per_second):
        self.interval_s = 1.0 / per_second
        self.next = time.monotonic()

    def __enter__(self):
        while (left := self.next - time.monotonic()) > 0:
            time.sleep(min(left, 0.02))  # guilty
        self.next = time.monotonic() + self.interval_s

    def __exit__(self, *_):
        pass


paddle.seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))
optimizer = paddle.optimizer.Momentum(0.01, parameters=model.parameters())
limit = RateLimit(RATE)
batch = paddle.randn([256, 256])
for _ in range(STEPS):
    with limit:  # guilty
        loss = nn.functional.mse_loss(model(batch), batch)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
print(round(float(loss), 3))
