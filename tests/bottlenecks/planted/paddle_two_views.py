"""Learns from two views of the same thing in Paddle; a slower copy of the model says what to learn.

Problem: autograd-in-inference
Needs: paddle
"""

import copy
import os

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "70"))
FIXED = os.environ.get("FIXED") == "1"


class Encoder(nn.Layer):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 64)
        )

    def forward(self, x):
        return nn.functional.normalize(self.layers(x), axis=1)


class TwoViews:
    def __init__(self):
        paddle.seed(0)
        self.online, self.target = Encoder(), Encoder()
        self.target.set_state_dict(copy.deepcopy(self.online.state_dict()))
        self.target.eval()
        self.optimizer = paddle.optimizer.SGD(0.05, parameters=self.online.parameters())

    def wanted(self, view):
        if FIXED:
            with paddle.no_grad():
                return self.target(view)
        return self.target(view)  # guilty

    def step(self, x):
        first, second = x + 0.1 * paddle.randn(x.shape), x + 0.1 * paddle.randn(x.shape)
        wanted = self.wanted(second)  # guilty
        loss = 2 - 2 * (self.online(first) * wanted).sum(1).mean()
        loss.backward()  # guilty
        self.optimizer.step()
        self.optimizer.clear_grad()
        self.target.clear_gradients()
        return loss


learner = TwoViews()
data = paddle.randn([256, 128])
for _ in range(STEPS):
    loss = learner.step(data)
print(round(float(loss), 4))
