"""Trains in Paddle with layers that each bring their input into another type and layout, and back.

Problem: redundant-copies
Needs: paddle
"""

import os

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "40"))
FIXED = os.environ.get("FIXED") == "1"


class StableNorm(nn.Layer):
    """Divides by the length of each vector."""

    def forward(self, x):
        if not FIXED:
            x = x.astype("float16").astype("float32").clone()  # guilty
            x = x.transpose([1, 0]).contiguous().transpose([1, 0]).contiguous()  # guilty
        return x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt()


paddle.seed(0)
layers = []
for _ in range(4):
    layers += [nn.Linear(256, 256), StableNorm(), nn.ReLU()]
model = nn.Sequential(*layers, nn.Linear(256, 10))
optimizer = paddle.optimizer.SGD(0.01, parameters=model.parameters())
x, y = paddle.randn([1024, 256]), paddle.randint(0, 10, [1024])
for _ in range(STEPS):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
print(round(float(loss), 3))
