"""Digests log files in four threads. No framework.

Problem: gil-contention, python-work
Needs: nothing
"""

import os
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"
PATHS = ["/", "/login", "/search", "/cart", "/static/app.js", "/api/v1/items"]
FILES = []


def log_file(number):
    lines = random.Random(number)
    return [
        f"10.0.0.{lines.randrange(256)} GET {lines.choice(PATHS)} {lines.choice((200, 304, 500))}"
        for _ in range(50_000)
    ]


def digest(number):
    hits, failures = Counter(), Counter()
    for line in FILES[number]:
        address, _, path, status = line.split()  # guilty
        hits[path] += 1  # guilty
        if int(status) >= 500:  # guilty
            failures[address] += 1
    return hits, failures


def main():
    FILES.extend(log_file(i) for i in range(3))
    work = [i % 3 for i in range(STEPS)]
    pool = ProcessPoolExecutor(2) if FIXED else ThreadPoolExecutor(4)
    hits = Counter()
    with pool:
        for found, _ in pool.map(digest, work):  # guilty
            hits.update(found)
    print(hits.most_common(1))


if __name__ == "__main__":
    main()
