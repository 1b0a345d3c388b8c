"""Programs that are hard on a sampler: what it reads comes and goes under its eyes.

Each is a generator that does a piece of its work at every step, for as long as it is asked; the
tests ask for a little, ``tools/stress_sampler.py`` for as much as ten million samples take.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    Program = Callable[[], Iterator[None]]


def short_threads() -> Iterator[None]:
    """Start threads that end at once, some at a time; one step is a hundred of them."""

    def work() -> None:
        sum(range(50))

    while True:
        for _ in range(10):
            threads = [threading.Thread(target=work) for _ in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        yield


def deep_recursion() -> Iterator[None]:
    """Go up and down through up to 20,000 frames, by two functions of different size."""

    def even(depth: int) -> int:
        return 0 if depth == 0 else odd(depth - 1) + 1

    def odd(depth: int, *more: int, other: int = 1) -> int:
        first, second, third = depth, other, more
        return 0 if depth == 0 else even(first - second) + 1 + len(third)

    limit = sys.getrecursionlimit()
    for depth in _forever(10, 100, 1_000, 5_000, 20_000):
        sys.setrecursionlimit(depth + 1_000)
        try:
            for _ in range(max(1, 1_000 // depth)):
                even(depth)
        finally:
            sys.setrecursionlimit(limit)
        yield


def coming_and_going() -> Iterator[None]:
    """Make functions, generators and coroutines whose code is new each time, and drop them."""
    source = "def made(n):\n{}    for i in range(n):\n        yield i * {}\n"
    for number in _forever(*range(1_000)):
        for _ in range(5):
            names: dict[str, Any] = {}
            text = source.format("\n" * (number % 50), number)
            exec(compile(text, f"<made {number}>", "exec"), names)
            sum(names["made"](30))
            renamed = names["made"].__code__.replace(co_name=f"made_{number}")
            sum(types.FunctionType(renamed, {"range": range})(30))
        asyncio.run(_coroutines(number % 7))
        yield


async def _coroutines(depth: int) -> int:
    async def count() -> AsyncIterator[int]:
        for i in range(20):
            await asyncio.sleep(0)
            yield i

    async def inner(turns: int) -> int:
        if turns:
            return await inner(turns - 1)
        return sum([i async for i in count()])

    return sum(await asyncio.gather(*(inner(depth) for _ in range(3))))


def greenlets() -> Iterator[None]:
    """Switch between greenlets, each with a stack of its own that grows and shrinks."""
    greenlet = importlib.import_module("greenlet")

    def work(depth: int) -> int:
        if depth == 0:
            greenlet.getcurrent().parent.switch()
            return 0
        return work(depth - 1) + 1

    while True:
        for depth in (1, 10, 200, 500):
            children = [greenlet.greenlet(work) for _ in range(10)]
            for child in children:
                child.switch(depth)
            for child in children:
                child.switch()
        yield


def subinterpreters() -> Iterator[None]:
    """Make an interpreter, run something there, in this thread and in another, and end it."""
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    interpreters = importlib.import_module(name)
    run = getattr(interpreters, "run_string", None) or interpreters.exec
    text = "def f(n):\n    return sum(i * i for i in range(n))\nf(5_000)\n"
    while True:
        number = interpreters.create()
        run(number, text)
        thread = threading.Thread(target=run, args=(number, text))
        thread.start()
        thread.join()
        interpreters.destroy(number)
        yield


PROGRAMS: dict[str, Program] = {
    item.__name__: item
    for item in (short_threads, deep_recursion, coming_and_going, greenlets, subinterpreters)
}


def _forever(*values: int) -> Iterator[int]:
    while True:
        yield from values
