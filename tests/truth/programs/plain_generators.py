"""Generators: the time of each is its own, not that of whoever consumes it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from own_truth import book, burn, run_one

ITEMS = 60


def produce() -> Iterator[int]:
    for item in range(ITEMS):
        with book.part("produce"):
            burn(12)
        yield item


def change(items: Iterable[int]) -> Iterator[int]:
    for item in items:
        with book.own_part("change"):
            burn(8)
        yield item + 1


def select(items: Iterable[int]) -> Iterator[int]:
    for item in items:
        with book.own_part("select"):
            burn(3)
        if item % 2:
            yield item


def consume(items: Iterable[int]) -> None:
    with book.part("consume"):
        for _ in items:
            burn(6)


def pipeline() -> None:
    consume(select(change(produce())))


def one_producer() -> None:
    with book.part("one_producer"):
        consume(produce())
        burn(250)


def delegate() -> Iterator[int]:
    with book.own_part("delegate"):
        burn(150)
    yield from produce()


def delegation() -> None:
    consume(delegate())


def average() -> Generator[int, int, None]:
    total = 0
    while True:
        number = yield total
        with book.part("average"):
            burn(10)
        total += number


def sent_values() -> None:
    """A generator that is fed."""
    averages = average()
    next(averages)
    for number in range(ITEMS):
        with book.part("sent_values"):
            burn(5)
            averages.send(number)


run_one(
    {
        "pipeline": pipeline,
        "one_producer": one_producer,
        "delegation": delegation,
        "sent_values": sent_values,
    }
)
