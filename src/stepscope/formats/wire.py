"""Protobuf's wire format: the fields of a message, without knowing what they mean."""

from __future__ import annotations

import struct
from collections.abc import Iterator

Value = int | memoryview

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_SHIFT = 63


class MalformedMessageError(ValueError):
    """The bytes are no message."""


def fields(data: memoryview, *, cut: bool = False) -> Iterator[tuple[int, Value]]:
    """Yield each field's number and value: an integer, of 64 bits at most, or its bytes.

    ``cut``: the message may end within a field, whose first bytes are then yielded.
    """
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        at += 1
        if tag >= 128:
            tag, at = _rest(data, at, tag)
        kind, number = tag & 7, tag >> 3
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif kind == _BYTES:
            size, at = _varint(data, at)
            if at + size > end and not cut:
                raise MalformedMessageError(f"a field of {size} bytes ends early")
            yield number, data[at : at + size]
            at += size
        elif kind in {_FIXED64, _FIXED32}:
            size = 8 if kind == _FIXED64 else 4
            if at + size > end:
                raise MalformedMessageError("a number ends early")
            yield number, struct.unpack_from("<Q" if size == 8 else "<I", data, at)[0]
            at += size
        else:
            raise MalformedMessageError(f"a field has the unknown type {kind}")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    if at >= len(data):
        raise MalformedMessageError("a number ends early")
    first = data[at]
    return (first, at + 1) if first < 128 else _rest(data, at + 1, first)


def _rest(data: memoryview, at: int, first: int) -> tuple[int, int]:
    value, shift = first & 127, 7
    while at < len(data) and shift <= _MOST_SHIFT:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
        shift += 7
    raise MalformedMessageError("a number ends early, or has more than 64 bits")
