"""Functions of every shape, whose own time and time with callees is known."""

from __future__ import annotations

from collections.abc import Callable

from own_truth import book, burn, crunch, run_one, timed

ROUNDS = 20


@timed
def leaf() -> None:
    burn(15)


@timed
def middle() -> None:
    burn(10)
    leaf()
    leaf()


@timed
def top() -> None:
    burn(5)
    middle()
    leaf()


def nested() -> None:
    for _ in range(ROUNDS):
        top()


@timed
def descend(depth: int) -> None:
    burn(4)
    if depth:
        descend(depth - 1)
        leaf()


def recursion() -> None:
    for _ in range(ROUNDS):
        descend(4)


@timed
def walk(depth: int) -> None:
    burn(1)
    if depth:
        turn(depth - 1)


@timed
def turn(depth: int) -> None:
    burn(3)
    if depth:
        walk(depth - 1)


def mutual_recursion() -> None:
    for _ in range(ROUNDS):
        walk(29)


@timed
def apply(callback: Callable[[int], int], times: int) -> None:
    burn(10)
    for number in range(times):
        callback(number)


def callbacks() -> None:
    def doubled(number: int) -> int:
        with book.part("callbacks.<locals>.doubled"):
            burn(6)
        return number * 2

    for _ in range(ROUNDS):
        apply(doubled, 8)


def key_of(number: int) -> int:
    with book.part("key_of"):
        burn(2)
    return -number


def sort_by_key() -> None:
    """C code that calls back into Python."""
    for _ in range(ROUNDS):
        with book.part("sort_by_key"):
            crunch(20)
            sorted(range(20), key=key_of)


class Shape:
    """A property, a method, a descriptor's work, an operator."""

    @property
    def area(self) -> int:
        with book.part("Shape.area"):
            burn(20)
        return 1

    def draw(self) -> None:
        with book.part("Shape.draw"):
            burn(30)
            _ = self.area

    def __add__(self, other: Shape) -> Shape:
        with book.part("Shape.__add__"):
            burn(12)
        return self


def properties() -> None:
    shape = Shape()
    for _ in range(ROUNDS):
        shape.draw()
        _ = shape + shape


def in_one_function() -> None:
    """Two lines of one function, and a comprehension in it."""
    with book.part("in_one_function"):
        burn(700)
        [burn(1) for _ in range(500)]
        burn(300)


run_one(
    {
        "nested": nested,
        "recursion": recursion,
        "mutual_recursion": mutual_recursion,
        "callbacks": callbacks,
        "sort_by_key": sort_by_key,
        "properties": properties,
        "in_one_function": in_one_function,
    }
)
