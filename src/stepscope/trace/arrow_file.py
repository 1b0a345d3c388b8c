"""Reads how much memory an Arrow file asks for, before Polars takes it.

Each compressed buffer begins with the length that it unpacks to. Polars takes that much at once and
ends the process where the machine has less, so a damaged length is to be found before. The layout
is that of Arrow's IPC format: a footer of flatbuffers that leads to the batches, and a message of
flatbuffers before each of them that leads to its buffers.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"ARROW1"
_CONTINUATION = 0xFFFFFFFF  # before the length of a message; files of the first format have none
_BLOCK = np.dtype([("offset", "<i8"), ("metadata", "<i4"), ("pad", "<i4"), ("body", "<i8")])
_BUFFER = np.dtype([("offset", "<i8"), ("length", "<i8")])
_LENGTH_BYTES = 8
_MOST_BYTES = 1 << 44  # of a file: 16 TiB, more than a table has on any machine
# The numbers of fields in Arrow's tables.
_FOOTER_DICTIONARIES, _FOOTER_BATCHES = 2, 3
_MESSAGE_TYPE, _MESSAGE_HEADER = 1, 2
_DICTIONARY = 2  # a type of message
_DICTIONARY_DATA = 1
_BATCH_BUFFERS, _BATCH_COMPRESSION = 2, 3


def unpacked_bytes(data: bytes) -> int:
    """Return how many bytes the compressed buffers of a file unpack to; 0 where none is.

    Raises:
        ValueError: When the file's own layout is damaged.

    """
    try:
        total = sum(_in_batch(data, offset, start) for offset, start in _batches(data))
    except (struct.error, OverflowError) as error:
        raise ValueError(f"not an Arrow file: {error}") from None
    if total > _MOST_BYTES:
        raise ValueError(f"not an Arrow file: it says that it holds {total:,} bytes")
    return total


def _batches(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the message of each batch begins, and where its buffers begin."""
    tail = len(data) - len(_MAGIC) - 4
    if tail < len(_MAGIC) or data[: len(_MAGIC)] != _MAGIC or data[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("not an Arrow file: it does not begin and end as one")
    footer = _follow(data, tail - _number(data, "<i", tail))
    for field in (_FOOTER_DICTIONARIES, _FOOTER_BATCHES):
        for block in _vector(data, _field(data, footer, field), _BLOCK):
            offset = int(block["offset"])
            yield offset, offset + int(block["metadata"])


def _in_batch(data: bytes, offset: int, body: int) -> int:
    has_mark = _number(data, "<I", offset) == _CONTINUATION
    message = _follow(data, offset + (8 if has_mark else 4))
    batch = _field(data, message, _MESSAGE_HEADER)
    kind = _field(data, message, _MESSAGE_TYPE)
    if batch and kind and _number(data, "<B", kind) == _DICTIONARY:
        batch = _field(data, _follow(data, batch), _DICTIONARY_DATA)
    if not batch:
        return 0
    batch = _follow(data, batch)
    if not _field(data, batch, _BATCH_COMPRESSION):
        return 0
    buffers = _vector(data, _field(data, batch, _BATCH_BUFFERS), _BUFFER)
    begins = body + buffers["offset"][buffers["length"] >= _LENGTH_BYTES]
    lengths = [_number(data, "<q", int(begin)) for begin in begins]
    return sum(length for length in lengths if length > 0)  # -1 before what is not compressed


def _number(data: bytes, kind: str, at: int) -> int:
    if at < 0:  # which would count from the end
        raise ValueError("not an Arrow file: it leads to a place before its beginning")
    value: int = struct.unpack_from(kind, data, at)[0]
    return value


def _follow(data: bytes, at: int) -> int:
    """Return the place that the offset at ``at`` leads to."""
    return at + _number(data, "<I", at)


def _field(data: bytes, table: int, number: int) -> int:
    """Return where a field of a table stands, 0 where it is absent."""
    fields = table - _number(data, "<i", table)
    place = 4 + 2 * number
    if place + 2 > _number(data, "<H", fields):
        return 0
    offset = _number(data, "<H", fields + place)
    return table + offset if offset else 0


def _vector(data: bytes, at: int, dtype: np.dtype[np.void]) -> np.ndarray:
    """Return the rows of a vector of structs, to which the offset at ``at`` leads."""
    if not at:
        return np.empty(0, dtype)
    start = _follow(data, at)
    count = _number(data, "<I", start)
    if count * dtype.itemsize > len(data) - start - 4:
        raise ValueError("not an Arrow file: it is shorter than its own table of contents")
    return np.frombuffer(data, dtype, count, start + 4)
