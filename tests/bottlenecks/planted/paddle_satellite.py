"""Classifies satellite images in Paddle; the Dataset makes them ready, in the training process.

Problem: data-loading
Needs: paddle
"""

import os

import numpy as np
import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "90"))
FIXED = os.environ.get("FIXED") == "1"


class Fields(paddle.io.Dataset):
    def __init__(self, count):
        super().__init__()
        rng = np.random.default_rng(0)
        self.raw = rng.integers(0, 4096, (32, 4, 288, 288), dtype=np.uint16)
        self.count = count
        self.ready = [self.prepared(image) for image in self.raw] if FIXED else None

    def __len__(self):
        return self.count

    def prepared(self, image):
        low, high = np.percentile(image, (2, 98), axis=(1, 2), keepdims=True)  # guilty
        image = np.clip((image - low) / (high - low), 0, 1).astype("float32")  # guilty
        return image[:, ::3, ::3].copy()

    def __getitem__(self, index):
        index %= 32
        image = self.ready[index] if FIXED else self.prepared(self.raw[index])  # guilty
        return image, np.int64(index % 6)


paddle.seed(0)
net = nn.Sequential(
    nn.Conv2D(4, 16, 5, 4), nn.ReLU(), nn.Conv2D(16, 32, 3, 2), nn.Flatten(), nn.Linear(3872, 6)
)
optimizer = paddle.optimizer.SGD(0.01, parameters=net.parameters())
loader = paddle.io.DataLoader(Fields(STEPS * 16), batch_size=16, num_workers=0)
for images, labels in loader:  # guilty
    loss = nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
print(round(float(loss), 3))
