"""C code that Python calls, beside Python code: whose time is it, and of which kind?"""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Callable
from functools import partial

from own_truth import book, burn, crunch, run_one, timed

NUMBERS = [random.Random(0).random() for _ in range(1_000)]
DOCUMENT = json.dumps([{"name": str(number), "value": number} for number in NUMBERS])
NUMBER = re.compile(r"[0-9]+\.[0-9]*99")


@timed
def add() -> None:
    with book.cause("c"):
        crunch(800, partial(sum, range(20_000)))


@timed
def order() -> None:
    with book.cause("c"):
        crunch(800, partial(sorted, NUMBERS))


@timed
def parse() -> None:
    with book.cause("c"):
        crunch(800, partial(json.loads, DOCUMENT))


@timed
def search() -> None:
    with book.cause("c"):
        crunch(800, partial(NUMBER.findall, DOCUMENT))


@timed
def compress() -> None:
    with book.cause("c"):
        crunch(800, partial(zlib.compress, DOCUMENT.encode()))


@timed
def compute() -> None:
    with book.cause("python"):
        burn(800)


@timed
def half_and_half() -> None:
    """Short calls of C code, in turns with Python code."""
    for _ in range(100):
        with book.cause("python"):
            burn(5)
        with book.cause("c"):
            crunch(5, partial(sum, range(2000)))


def both(function: Callable[[], None]) -> None:
    compute()
    function()


run_one(
    {
        "sum": lambda: both(add),
        "sort": lambda: both(order),
        "json": lambda: both(parse),
        "regex": lambda: both(search),
        "zlib": lambda: both(compress),
        "half": half_and_half,
        "python": compute,
    }
)
