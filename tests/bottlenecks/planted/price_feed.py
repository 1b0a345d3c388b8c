"""Collects prices from a service that is often busy, and averages them. No framework.

Problem: waiting-sleep
Needs: nothing
"""

import os
import random
import time

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"
BUSY_FOR_S = 0.015


class Busy(Exception):
    pass


class PriceService:
    """Stands for one far away: it answers the third time it is asked."""

    def __init__(self):
        self.asked = 0
        self.random = random.Random(4)

    def prices(self, count):
        self.asked += 1
        if not FIXED and self.asked % 3:
            raise Busy
        return [self.random.lognormvariate(3, 0.2) for _ in range(count)]


def with_retries(call, *args, wait_s=BUSY_FOR_S):
    while True:
        try:
            return call(*args)
        except Busy:
            time.sleep(wait_s)  # guilty
            wait_s *= 2


def moving_average(values, width):
    total, averages = sum(values[:width]), []
    for i in range(width, len(values)):
        total += values[i] - values[i - width]
        averages.append(total / width)
    return averages


service = PriceService()
for _ in range(STEPS):
    prices = with_retries(service.prices, 20_000)  # guilty
    averages = moving_average(prices, 50)
print(f"{averages[-1]:.2f}")
