"""Exceptions are kept, and with them their frames."""

import time

failures = []
log = []


def check(number):
    payload = [number + i for i in range(4000)]  # allocates
    if sum(payload) >= 0:
        raise ValueError(number)
    log.append(payload)  # never runs


def main():
    for number in range(1200):
        try:
            check(number)
        except ValueError as error:
            failures.append(error)
        time.sleep(0.002)


main()
