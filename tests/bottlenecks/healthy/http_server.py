"""A threaded HTTP server that resamples measurements, and clients that ask it. NumPy only.

Problem: none
Needs: numpy
"""

import os
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

STEPS = int(os.environ.get("STEPS", "220"))
MEASURED = np.random.default_rng(0).normal(size=400_000).cumsum()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        phase = int(self.path.strip("/")) % 100
        spectrum = np.fft.rfft(np.roll(MEASURED, phase))
        smooth = np.fft.irfft(spectrum[:2001], 4000)
        body = smooth.astype("<f4").tobytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def ask(port, numbers, received):
    connection = HTTPConnection("127.0.0.1", port)
    for number in numbers:
        connection.request("GET", f"/{number}")
        received.append(len(connection.getresponse().read()))
    connection.close()


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
received = []
clients = [
    threading.Thread(target=ask, args=(server.server_port, range(i, STEPS, 2), received))
    for i in range(2)
]
for client in clients:
    client.start()
for client in clients:
    client.join()
server.shutdown()
print(len(received), "answers")
