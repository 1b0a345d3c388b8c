"""Trains in Paddle while threads cut words into pieces for later.

Problem: gil-contention
Needs: paddle
"""

import os
import queue
import threading

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "90"))
THREADS = 0 if os.environ.get("FIXED") == "1" else 2


def pieces(word):
    return [word[i : i + n] for n in range(1, 5) for i in range(len(word) - n + 1)]  # guilty


def cut_words(results, done):
    words = [f"word{i}thing{i * 31}" for i in range(300)]
    while not done.is_set():
        counts = {}
        for word in words:
            for piece in pieces(word):  # guilty
                counts[piece] = counts.get(piece, 0) + 1  # guilty
        if not results.full():
            results.put(counts)


done, results = threading.Event(), queue.Queue(4)
threads = [threading.Thread(target=cut_words, args=(results, done)) for _ in range(THREADS)]
for thread in threads:
    thread.start()  # guilty

paddle.seed(0)
model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(20)))
optimizer = paddle.optimizer.SGD(0.001, parameters=model.parameters())
batch = paddle.randn([32, 64])
for _ in range(STEPS):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
done.set()
for thread in threads:
    thread.join()
print(round(float(loss), 4))
