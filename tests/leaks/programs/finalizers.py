"""weakref.finalize with an argument that keeps data."""

import time
import weakref


class Session:
    pass


alive = []


def close(data):
    return len(data)


def open_session(number):
    session = Session()
    data = bytearray(40_000)  # allocates
    data[:4] = number.to_bytes(4, "little")
    weakref.finalize(session, close, data)
    alive.append(session)
    if number < 0:
        alive.append(data)  # never runs


def main():
    for number in range(2000):
        open_session(number)
        sum(range(8000))
        time.sleep(0.0015)


main()
