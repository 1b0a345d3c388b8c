"""The inputs of an operator call, as far as the trace has them.

Traces are untrusted text: every accessor checks what it returns, and raises ``ValueError`` for
values that are missing or invalid. A formula needs no check of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stepscope.trace.element_types import element_type
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import CONCRETE_INPUTS, INPUT_DIMS, INPUT_NAMES, INPUT_TYPES

Shape = tuple[int, ...]

_KEYS = (INPUT_DIMS, INPUT_TYPES, CONCRETE_INPUTS, INPUT_NAMES)
_MOST_DIMENSIONS = 64  # torch's own limit
_LONGEST_DIMENSION = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of one call by position: shapes, types, and scalars as text."""

    dims: list[Any]
    types: list[Any]
    concrete: list[Any]
    names: list[Any] = field(default_factory=list)  # of keyword arguments; "" or none for others

    @staticmethod
    def parse(fragment: str) -> Inputs:
        """Read the JSON fragment that an operator's slice carries."""
        pairs = pairs_of(fragment)
        columns = (pairs.get(key, []) for key in _KEYS)
        return Inputs(*(column if isinstance(column, list) else [] for column in columns))

    def shape(self, index: int) -> Shape:
        """Return a tensor's sizes; none for a scalar or a missing tensor."""
        return _shape(_item(self.dims, index))

    def shapes(self, index: int) -> list[Shape]:
        """Return the sizes of every tensor of a list."""
        tensors = _item(self.dims, index)
        if not isinstance(tensors, list):
            raise ValueError(f"input {index} is not a list of tensors: {tensors!r}")
        return [_shape(sizes) for sizes in tensors]

    def is_given(self, index: int) -> bool:
        """Return whether an optional tensor of at least one dimension is there."""
        return len(self.shape(index)) > 0

    def integers(self, index: int, count: int) -> list[int]:
        """Return a list of integers such as a stride; a single one stands for all."""
        values = [int(word) for word in self._words(index)]
        if len(values) == 1:
            values *= count
        if len(values) != count or not all(abs(value) <= _LONGEST_DIMENSION for value in values):
            raise ValueError(f"input {index} is not {count} integers: {values}")
        return values

    def has_words(self, index: int) -> bool:
        """Return whether a list is not empty; torch writes ``[]`` for its default."""
        return bool(self._words(index))

    def integer(self, index: int) -> int:
        return self.integers(index, 1)[0]

    def number(self, index: int) -> float:
        (word,) = self._words(index)
        return float(word)

    def flag(self, index: int) -> bool:
        return self.flags(index, 1)[0]

    def flags(self, index: int, count: int) -> list[bool]:
        """Return a list of truth values such as an output mask."""
        words = self._words(index)
        if len(words) != count or not {*words} <= {"True", "False"}:
            raise ValueError(f"input {index} is not {count} truth values: {words}")
        return [word == "True" for word in words]

    def is_complex(self, index: int) -> bool:
        return "complex" in self._type(index)

    def are_integers(self, count: int) -> bool:
        """Return whether the first inputs are all known to be integers or booleans."""
        return all(self._is_integer(index) for index in range(min(count, len(self.dims))))

    def _is_integer(self, index: int) -> bool:
        word = self._type(index)
        if word == "Scalar":
            text = str(_item(self.concrete, index)) if index < len(self.concrete) else ""
            return text in {"True", "False"} or text.removeprefix("-").isdecimal()
        element = element_type(word)
        return element is not None and element.is_integer

    def _type(self, index: int) -> str:
        return str(self.types[index]) if index < len(self.types) else ""

    def _words(self, index: int) -> list[str]:
        text = _item(self.concrete, index)
        if not isinstance(text, str):
            raise ValueError(f"input {index} is not a string: {text!r}")
        bare = text.removeprefix("[").removesuffix("]").strip()
        if not bare and text != "[]":
            raise ValueError(f"input {index} has no value")
        return [word.strip() for word in bare.split(",")] if bare else []


Formula = Callable[[Inputs], int]


def _item(values: list[Any], index: int) -> Any:
    if index >= len(values):
        raise ValueError(f"input {index} of {len(values)}")
    return values[index]


def _shape(sizes: Any) -> Shape:
    if not isinstance(sizes, list) or len(sizes) > _MOST_DIMENSIONS:
        raise ValueError(f"no shape: {sizes!r}")
    if not all(type(size) is int and 0 <= size <= _LONGEST_DIMENSION for size in sizes):
        raise ValueError(f"no sizes: {sizes!r}")
    return tuple(sizes)
