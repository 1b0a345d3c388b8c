"""Compresses thumbnails in threads, which share one cache. No framework.

Problem: waiting-lock
Needs: nothing
"""

import os
import random
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

STEPS = int(os.environ.get("STEPS", "240"))
FIXED = os.environ.get("FIXED") == "1"


class Cache:
    def __init__(self):
        self.lock = threading.Lock()
        self.known = {}

    def compressed(self, key, pixels):
        if FIXED:
            small = zlib.compress(pixels, 9)
            with self.lock:
                return self.known.setdefault(key, small)
        with self.lock:  # guilty
            if key not in self.known:
                self.known[key] = zlib.compress(pixels, 9)  # guilty
            return self.known[key]


def thumbnail(number):
    noise = random.Random(number)
    return bytes(noise.choices(range(64), k=60_000))


pictures = [thumbnail(i) for i in range(12)]
cache = Cache()


def handle(request):
    small = cache.compressed(request, pictures[request % len(pictures)])  # guilty
    return len(small) + zlib.crc32(small)


with ThreadPoolExecutor(4) as pool:
    answers = list(pool.map(handle, range(STEPS)))
print(sum(answers) % 1000)
