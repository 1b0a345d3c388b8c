"""Masks mail addresses in texts, by a pattern that tries every way to split a word.

Problem: python-work
Needs: nothing
"""

import os
import re
from collections import Counter

STEPS = int(os.environ.get("STEPS", "400"))
FIXED = os.environ.get("FIXED") == "1"
TEXT = "on monday ana.silva@example.com wrote about a shipment 2024-11-03 to jo@example.org " * 150
ADDRESS = re.compile(r"[a-z0-9.]+@[a-z]+\.[a-z]+" if FIXED else r"(?:[a-z0-9]+\.?)+@[a-z]+\.[a-z]+")


def masked(text):
    return ADDRESS.sub("<mail>", text)  # guilty


def words(text):
    counts = Counter()
    for word in text.split():
        counts[word.strip(".,")] += 1
    return counts


def main():
    total = Counter()
    for _ in range(STEPS):
        total += words(masked(TEXT))  # guilty
    print(total.most_common(1))


main()
