"""array.array that is extended; a bytearray beside it that is reused."""

import time
from array import array

trace = array("d")
scratch = bytearray(1_000_000)


def block(number):
    return [float(number + i) for i in range(2500)]


def record(values):
    if len(values) == 0:
        scratch.extend(b"0")  # never runs
    trace.extend(values)  # allocates


def main():
    for number in range(4000):
        record(block(number))
        scratch[number] = 1
        time.sleep(0.0005)


main()
