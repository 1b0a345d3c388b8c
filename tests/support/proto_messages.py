"""A decoder of protobuf that knows nothing of ours: fields by their numbers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def varints(data: bytes) -> list[int]:
    """Return packed numbers."""
    numbers, at = [], 0
    while at < len(data):
        number, at = _varint(data, at)
        numbers.append(number)
    return numbers


def messages(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: the number, and an int or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            size, at = _varint(data, at)
            assert at + size <= len(data)
            yield number, data[at : at + size]
            at += size
        else:
            size = {1: 8, 5: 4}[wire]
            yield number, struct.unpack_from("<Q" if size == 8 else "<I", data, at)[0]
            at += size


def message(data: bytes) -> dict[int, list[Any]]:
    """Return the fields of a message, each with all its values."""
    by_name: dict[int, list[Any]] = {}
    for number, value in messages(data):
        by_name.setdefault(number, []).append(value)
    return by_name


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
