"""Clients that ask a local server: PORT REQUESTS AT_ONCE."""

from __future__ import annotations

import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

port, requests, at_once = map(int, sys.argv[1:])


def ask(number: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{number}") as answer:
        answer.read()


with ThreadPoolExecutor(at_once) as clients:
    list(clients.map(ask, range(requests)))
