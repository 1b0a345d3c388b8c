"""Ranks articles with features from a store behind a socket.

Problem: waiting-io
Needs: torch
"""

import multiprocessing
import os
import socket
import struct
import time

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "120"))
FIXED = os.environ.get("FIXED") == "1"
WIDTH, BATCH = 64, 128


def run_store(listener):
    """The store: a process of its own, which takes 15 ms for an answer."""
    connection, _ = listener.accept()
    answer = bytes(4 * WIDTH * BATCH)
    while connection.recv(4):
        time.sleep(0.015)
        connection.sendall(answer)


class FeatureStore:
    def __init__(self, address):
        self.socket = socket.create_connection(address)
        self.known = {}

    def features(self, key):
        if FIXED and key in self.known:
            return self.known[key]
        self.socket.sendall(struct.pack("<i", key))
        received = bytearray()
        while len(received) < 4 * WIDTH * BATCH:
            received += self.socket.recv(65536)  # guilty
        self.known[key] = torch.frombuffer(received, dtype=torch.float32).view(BATCH, WIDTH)
        return self.known[key]


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    context = multiprocessing.get_context("fork")
    store_process = context.Process(target=run_store, args=(listener,), daemon=True)
    store_process.start()
    store = FeatureStore(listener.getsockname())
    torch.manual_seed(0)
    ranker = nn.Sequential(nn.Linear(WIDTH, 512), nn.GELU(), nn.Linear(512, 512), nn.Linear(512, 1))
    optimizer = torch.optim.SGD(ranker.parameters(), lr=0.01)
    clicks = torch.rand(BATCH, 1).round()
    for step in range(STEPS):
        features = store.features(step % 4)  # guilty
        loss = nn.functional.binary_cross_entropy_with_logits(ranker(features), clicks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.3f}")
    store.socket.close()
    store_process.join()


if __name__ == "__main__":
    main()
