"""Trains in Paddle and sends each loss to a server that draws curves.

Problem: waiting-io, logging
Needs: paddle
"""

import json
import multiprocessing
import os
import time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "120"))
FIXED = os.environ.get("FIXED") == "1"


class TrackingHandler(BaseHTTPRequestHandler):
    """The server: a process of its own, which takes 20 ms to store something."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.02)
        self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Tracker:
    def __init__(self, port):
        self.connection = HTTPConnection("127.0.0.1", port)
        self.waiting = []

    def log(self, **values):
        self.waiting.append(values)
        if not FIXED or len(self.waiting) >= 50:
            self.send()  # guilty

    def send(self):
        self.connection.request("POST", "/log", json.dumps(self.waiting))
        self.connection.getresponse().read()  # guilty
        self.waiting.clear()


def main():
    server = HTTPServer(("127.0.0.1", 0), TrackingHandler)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=server.serve_forever, daemon=True)
    process.start()
    tracker = Tracker(server.server_port)
    paddle.seed(0)
    net = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 1))
    optimizer = paddle.optimizer.SGD(0.01, parameters=net.parameters())
    x = paddle.randn([512, 128])
    y = x.sum(1, keepdim=True)
    for step in range(STEPS):
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        tracker.log(step=step, loss=float(loss))  # guilty
    tracker.connection.close()
    process.kill()
    print(f"{float(loss):.3f}")


if __name__ == "__main__":
    main()
