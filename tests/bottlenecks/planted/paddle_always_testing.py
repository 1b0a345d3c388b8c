"""Trains in Paddle and measures the test set after each step.

Problem: evaluation-every-step
Needs: paddle
"""

import os

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "110"))
FIXED = os.environ.get("FIXED") == "1"


class Trainer:
    def __init__(self):
        paddle.seed(0)
        self.net = nn.Sequential(nn.Linear(100, 400), nn.ReLU(), nn.Dropout(0.2), nn.Linear(400, 5))
        self.optimizer = paddle.optimizer.SGD(0.05, parameters=self.net.parameters())
        self.x, self.y = paddle.randn([256, 100]), paddle.randint(0, 5, [256])
        self.test_x, self.test_y = paddle.randn([2048, 100]), paddle.randint(0, 5, [2048])

    def train_step(self):
        self.net.train()
        loss = nn.functional.cross_entropy(self.net(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()

    def test(self):
        self.net.eval()
        with paddle.no_grad():
            scores = self.net(self.test_x)  # guilty
            return float((scores.argmax(1) == self.test_y).astype("float32").mean())

    def fit(self):
        accuracy = 0.0
        for step in range(STEPS):
            self.train_step()
            if not FIXED or step == STEPS - 1:
                accuracy = self.test()  # guilty
        return accuracy


print(f"{Trainer().fit():.3f}")
