"""Entries that a source writes to the stream of its process, so that they survive any end.

Inside a program of `stepscope run`, ``collect`` is never called: a source notes each entry as soon
as it has it, at the latest when it stops, and ``Source.recover`` reads the entries.
"""

from __future__ import annotations

import binascii
from itertools import count, cycle
from typing import TYPE_CHECKING, Any

from stepscope import _native

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepscope.record.stream.left_behind import LeftBehind

HANDED_OVER = "; the collector hands them over only when the program ends in order"
"""Added to the description of a source whose collector still has the events: a kill loses them."""

_LARGEST = 1 << 62  # a time plus a duration of this size does not overflow
_PIECE_BYTES = 3 * 255 << 10  # base64 of it fits into a note of the stream, 1 MiB


class Journal:
    """The entries of one source, as plain data."""

    def __init__(self, source: str, *, is_on: bool, most: int = 0) -> None:
        """Take the source's name; a journal that is not on notes nothing.

        If it has ``most`` entries, further ones take the places of the oldest.
        """
        self._source = source
        self._is_on = is_on
        self._numbers = cycle(range(most)) if most else count()

    def add(self, entry: Mapping[str, Any]) -> None:
        """Note an entry: text, numbers, and lists and mappings of them."""
        if self._is_on:
            _native.note_value_in_stream(f"{self._source}/{next(self._numbers)}", entry)


def entries(remains: LeftBehind, source: str) -> list[dict[str, Any]]:
    """Return a source's entries in order; their values may be hostile, as in any file."""
    numbers = {
        int(number): entry
        for name, entry in remains.meta.items()
        for of, _, number in (name.partition("/"),)
        if of == source and number.isascii() and number.isdigit()
    }
    return [numbers[number] for number in sorted(numbers)]


def pieces(data: bytes) -> Iterator[str]:
    """Yield bytes as texts for entries; at least one text."""
    for at in range(0, len(data) or 1, _PIECE_BYTES):
        yield binascii.b2a_base64(data[at : at + _PIECE_BYTES], newline=False).decode("ascii")


def bytes_of(piece: object) -> bytes:
    """Return the bytes of a text from ``pieces``; empty for anything else."""
    if not isinstance(piece, str):
        return b""
    try:
        return binascii.a2b_base64(piece)
    except ValueError:
        return b""


def is_whole(value: object) -> bool:
    """Tell whether a value is a whole number that a table can hold."""
    return type(value) is int and abs(value) < _LARGEST


def fits(value: object, *kinds: type) -> bool:
    """Tell whether a value is a list of elements of these types."""
    return (
        isinstance(value, list)
        and [type(element) for element in value] == list(kinds)
        and all(is_whole(element) for element in value if type(element) is int)
    )
