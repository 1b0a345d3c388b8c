"""Training and inference in Paddle."""

from __future__ import annotations

import paddle
from own_truth import book, burn, run_one, timed
from paddle import nn

paddle.seed(0)


def make_model() -> nn.Layer:
    return nn.Sequential(
        nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )


model = make_model()
optimizer = paddle.optimizer.SGD(0.01, parameters=model.parameters())


def forward_and_backward(size: int) -> None:
    with book.cause("other"):
        inputs, labels = paddle.randn([size, 64]), paddle.randint(0, 10, [size])
    with book.cause("forward"):
        loss = nn.functional.cross_entropy(model(inputs), labels)
    with book.cause("backward"):
        loss.backward()


def update() -> None:
    with book.cause("optimizer"):
        optimizer.step()
        optimizer.clear_grad()


def train(sizes: list[int]) -> None:
    for size in sizes:
        with book.step():
            forward_and_backward(size)
            update()


@timed
def evaluate() -> None:
    model.eval()
    with paddle.no_grad():
        for _ in range(40):
            model(paddle.randn([512, 64])).argmax(1)
    model.train()


def accumulate() -> None:
    for _ in range(30):
        with book.step():
            for _ in range(4):
                forward_and_backward(256)
            update()


def validation() -> None:
    for _ in range(8):
        train([256] * 10)
        evaluate()


@timed
def prepare() -> None:
    burn(6)


def infer() -> None:
    model.eval()
    with paddle.no_grad():
        for _ in range(100):
            with book.step():
                prepare()
                with book.cause("forward"):
                    model(paddle.randn([512, 64]))


run_one(
    {
        "alternating": lambda: train([64, 1024] * 50),
        "accumulate": accumulate,
        "validation": validation,
        "infer": infer,
    }
)
