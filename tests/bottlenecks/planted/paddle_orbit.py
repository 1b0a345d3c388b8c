"""Learns the orbit of a satellite in Paddle, with the default type that the simulation uses.

Problem: float64
Needs: paddle
"""

import os

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "50"))
FIXED = os.environ.get("FIXED") == "1"

if not FIXED:
    paddle.set_default_dtype("float64")  # guilty


def orbit(count):
    angle = paddle.linspace(0, 60, count, dtype=paddle.get_default_dtype())
    return paddle.stack([angle.cos(), angle.sin(), (3 * angle).sin(), angle / 60], 1)


class Propagator(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 512)
        self.middle = nn.Linear(512, 512)
        self.outer = nn.Linear(512, 4)

    def forward(self, x):
        return self.outer(self.middle(self.inner(x).tanh()).tanh())


paddle.seed(0)
path = orbit(513)
model = Propagator()
optimizer = paddle.optimizer.SGD(0.01, parameters=model.parameters())
for _ in range(STEPS):
    loss = (model(path[:-1]) - path[1:]).square().mean()  # guilty
    loss.backward()  # guilty
    optimizer.step()
    optimizer.clear_grad()
print(round(float(loss), 4))
