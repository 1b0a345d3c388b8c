"""Trains a CNN in Paddle.

Problem: none
Needs: paddle
"""

import os

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "80"))


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(3, 32, 3, 2, 1),
            nn.BatchNorm2D(32),
            nn.ReLU(),
            nn.Conv2D(32, 64, 3, 2, 1),
            nn.BatchNorm2D(64),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.features(x).mean([2, 3]))


def main():
    paddle.seed(0)
    model = Net()
    optimizer = paddle.optimizer.Momentum(0.01, parameters=model.parameters())
    images = paddle.randn([32 * STEPS, 3, 32, 32])
    labels = paddle.randint(0, 10, [32 * STEPS, 1])
    data = paddle.io.TensorDataset([images, labels])
    for step, (image, label) in enumerate(paddle.io.DataLoader(data, batch_size=32)):
        loss = nn.functional.cross_entropy(model(image), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 10 == 0:
            print(f"step {step}: {float(loss):.3f}")


if __name__ == "__main__":
    main()
