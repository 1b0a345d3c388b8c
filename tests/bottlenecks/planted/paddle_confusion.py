"""Trains a classifier with paddle.Model; a callback keeps a table of what was mixed up.

Problem: python-work
Needs: paddle
"""

import os

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "140"))
FIXED = os.environ.get("FIXED") == "1"
CLASSES = 8


class Points(paddle.io.Dataset):
    def __init__(self, count):
        super().__init__()
        paddle.seed(0)
        self.points = paddle.randn([512, 32]).numpy()
        self.labels = paddle.randint(0, CLASSES, [512, 1]).numpy()
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.points[index % 512], self.labels[index % 512]


class MixedUp(paddle.callbacks.Callback):
    """How often a class was taken for another one, with a window of 2,000 answers."""

    def __init__(self):
        super().__init__()
        self.answers = [(i % CLASSES, i * 7 % CLASSES) for i in range(2000)]
        self.table = None

    def on_train_batch_end(self, step, logs=None):
        if FIXED and step % 50:
            return
        table = {}
        for wanted in range(CLASSES):
            for given in range(CLASSES):
                table[wanted, given] = sum(
                    pair == (wanted, given) for pair in self.answers
                )  # guilty
        self.table = table


network = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, CLASSES))
model = paddle.Model(network)
model.prepare(paddle.optimizer.SGD(0.01, parameters=model.parameters()), nn.CrossEntropyLoss())
mixed_up = MixedUp()
model.fit(Points(STEPS * 64), batch_size=64, epochs=1, verbose=0, callbacks=[mixed_up])
print(max(mixed_up.table.values()))
