"""Forecasts orders in Paddle from lists that the shop's program hands over.

Problem: tensors-from-lists, data-in-loop
Needs: paddle
"""

import os
import random

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "220"))
FIXED = os.environ.get("FIXED") == "1"


def orders(shops, days):
    draw = random.Random(0)
    return [[draw.random() for _ in range(days)] for _ in range(shops)]


def to_batch(rows):
    inputs = paddle.to_tensor([row[:-1] for row in rows])  # guilty
    return inputs, paddle.to_tensor([row[-1:] for row in rows])


history = orders(256, 365)
paddle.seed(0)
model = nn.Sequential(nn.Linear(364, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = paddle.optimizer.SGD(0.01, parameters=model.parameters())
ready = to_batch(history)
for _ in range(STEPS):
    inputs, targets = ready if FIXED else to_batch(history)  # guilty
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
print(f"{float(loss):.4f}")
