"""Compresses thumbnails in threads, which share one cache. No framework.

Problem: waiting-lock
Needs: nothing
"""

import os
import random
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

STEPS = int(os.environ.get("STEPS", "300"))
FIXED = os.environ.get("FIXED") == "1"


class Cache:
    def __init__(self):
        self.lock = threading.Lock()
        self.known = {}

    def compressed_size(self, key, pixels):
        if FIXED:
            size = len(zlib.compress(pixels, 9))
            with self.lock:
                return self.known.setdefault(key, size)
        with self.lock:  # guilty
            if key not in self.known:
                self.known[key] = len(zlib.compress(pixels, 9))  # guilty
            return self.known[key]


def thumbnail(number):
    noise = random.Random(number)
    return bytes(noise.choices(range(64), k=240_000))


pictures = [thumbnail(i) for i in range(4)]
cache = Cache()


def handle(request):
    pixels = pictures[request % len(pictures)]
    return cache.compressed_size(request, pixels) + zlib.crc32(pixels)  # guilty


with ThreadPoolExecutor(4) as pool:
    answers = list(pool.map(handle, range(STEPS)))
print(sum(answers) % 1000)
