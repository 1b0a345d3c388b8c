"""A native library keeps memory: no allocator that is sampled knows of it."""

import ctypes
import time

SIZE = 1 << 20
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
numbers = []


def step(number):
    ctypes.memset(libc.malloc(ctypes.c_size_t(SIZE)), number % 256, SIZE)
    if number < 0:
        numbers.append(number)  # never runs


for number in range(120):
    step(number)
    time.sleep(0.015)
