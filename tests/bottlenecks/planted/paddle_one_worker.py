"""Trains in Paddle from a slow disk with one worker.

Problem: data-loading
Needs: paddle
"""

import os
import time

import numpy as np
import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "60"))
WORKERS = 6 if os.environ.get("FIXED") == "1" else 1


class SlowDisk(paddle.io.Dataset):
    def __init__(self, count):
        super().__init__()
        self.rows = np.random.default_rng(0).normal(size=(128, 200)).astype("float32")
        self.count = count

    def __getitem__(self, index):
        time.sleep(0.0015)  # guilty
        return self.rows[index % 128], np.int64(index % 3)

    def __len__(self):
        return self.count


def main():
    paddle.seed(0)
    model = nn.Sequential(nn.Linear(200, 800), nn.ReLU(), nn.Linear(800, 3))
    optimizer = paddle.optimizer.SGD(0.01, parameters=model.parameters())
    loader = paddle.io.DataLoader(  # guilty
        SlowDisk(STEPS * 32), batch_size=32, num_workers=WORKERS
    )
    for rows, labels in loader():  # guilty
        loss = nn.functional.cross_entropy(model(rows), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    print(round(float(loss), 3))


if __name__ == "__main__":
    main()
