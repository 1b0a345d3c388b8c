"""Checks an Arrow file before Polars reads it, since Polars trusts the file.

A wrong length makes Polars allocate any amount of memory or panic in a thread of its own, and
Polars' own extension type is an address that it follows: each ends the process. So all offsets,
lengths and types are compared with the existing bytes here. Polars checks the contents of the
buffers (offsets of texts, UTF-8, numbers of categories).

The layout is that of https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format; its
messages are FlatBuffers: tables that refer to their fields by a table of offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAGIC = b"ARROW1"
_HEAD = 8  # the magic with its padding
_TAIL = 10  # the length of the footer, and the magic again
_CONTINUATION = 0xFFFFFFFF
_BLOCK, _NODE, _BUFFER = "<qi4xq", "<qq", "<qq"
_ALIGNMENT = 8
_PADDING = 64  # a buffer may be longer than its values by less than this
_UNCOMPRESSED = -1  # stands in place of a length
_MOST_ROWS = 1 << 40
_EXTENSION = b"ARROW:extension:"

_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3  # kinds of messages
_INT, _FLOAT, _BOOL, _DATE, _TIME, _TIMESTAMP, _DURATION = 2, 3, 6, 8, 9, 10, 18
_VIEWS = (23, 24)  # views of bytes, of texts
_BITS = (8, 16, 32, 64, 128)
_DATE_BYTES = (4, 8)  # by its unit: days, milliseconds
_FLOAT_BYTES = (2, 4, 8)  # by its precision
_OFFSET_BYTES = {4: 4, 5: 4, 19: 8, 20: 8}  # of bytes and texts, both also large


class ArrowFileError(ValueError):
    """The bytes are not those of an Arrow file with tables of plain columns."""


@dataclass(frozen=True, slots=True)
class ArrowSize:
    """The unpacked size of an Arrow file."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Column:
    """The buffers of a column's values; the validity buffer comes first."""

    fixed_bits: int = 0
    offset_bytes: int = 0  # of a column of texts, whose bytes have their own buffer
    is_view: bool = False  # each batch tells the number of text buffers
    dictionary: int | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """A message of the file, and its buffers."""

    message: _Table
    body: memoryview


class _Table:
    """A FlatBuffers table; an offset outside the message raises ``struct.error``."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        self._slots = at - self._read("<i", at)
        self._slots_end = self._slots + self._read("<H", self._slots)

    def number(self, slot: int, form: str, default: int = 0) -> int:
        at = self._field(slot)
        return self._read(form, at) if at else default

    def table(self, slot: int) -> _Table | None:
        at = self._field(slot)
        return _Table(self._data, at + self._read("<I", at)) if at else None

    def tables(self, slot: int) -> Iterator[_Table]:
        for at in self._items(slot, 4):
            yield _Table(self._data, at + self._read("<I", at))

    def structs(self, slot: int, form: str) -> list[tuple[int, ...]]:
        return [
            struct.unpack_from(form, self._data, at)
            for at in self._items(slot, struct.calcsize(form))
        ]

    def text(self, slot: int) -> bytes:
        items = self._items(slot, 1)
        return bytes(self._data[items.start : items.stop])

    def _field(self, slot: int) -> int:
        """Return the offset of a field, 0 if it is absent."""
        at = self._slots + 4 + 2 * slot
        offset = self._read("<H", at) if at + 2 <= self._slots_end else 0
        return self._at + offset if offset else 0

    def _items(self, slot: int, size: int) -> range:
        at = self._field(slot)
        if not at:
            return range(0)
        start = at + self._read("<I", at)
        end = start + 4 + self._read("<I", start) * size
        if end > len(self._data):
            raise ArrowFileError("a list ends behind its message")
        return range(start + 4, end, size)

    def _read(self, form: str, at: int) -> int:
        if at < 0:  # struct would index from the end
            raise ArrowFileError("an offset leads before its message")
        return int(struct.unpack_from(form, self._data, at)[0])


def checked_size(data: bytes) -> ArrowSize:
    """Return the size of a file; ArrowFileError for one that Polars must not read."""
    try:
        return _checked_size(memoryview(data))
    except struct.error:
        raise ArrowFileError("a message is shorter than it says") from None


def _checked_size(data: memoryview) -> ArrowSize:
    if len(data) < _HEAD + _TAIL or data[:6] != _MAGIC or data[-6:] != _MAGIC:
        raise ArrowFileError("it does not begin and end as an Arrow file")
    footer_end = len(data) - _TAIL
    (footer_bytes,) = struct.unpack_from("<i", data, footer_end)
    if not 0 < footer_bytes <= footer_end - _HEAD:
        raise ArrowFileError("its footer has no place in it")
    footer = _root(data[footer_end - footer_bytes : footer_end])
    schema = footer.table(1)
    if schema is None or schema.number(0, "<h"):
        raise ArrowFileError("it has no columns, or they are big-endian")
    columns = [_column(field) for field in schema.tables(1)]
    dictionaries = {
        column.dictionary: values
        for field, column in zip(schema.tables(1), columns, strict=True)
        if column.dictionary is not None
        for values in [_values(field)]
    }
    blocks = footer.structs(2, _BLOCK), footer.structs(3, _BLOCK)
    _check_overlaps(sorted(blocks[0] + blocks[1]), footer_end - footer_bytes)
    total = rows = 0
    for block in blocks[0]:
        part = _part(data, block, _DICTIONARY_BATCH)
        number, batch = part.message.number(0, "<q"), part.message.table(1)
        if batch is None or number not in dictionaries:
            raise ArrowFileError("it has a dictionary of no column")
        total += _batch_size(_Part(batch, part.body), [dictionaries[number]]).bytes
    for block in blocks[1]:
        size = _batch_size(_part(data, block, _RECORD_BATCH), columns)
        total, rows = total + size.bytes, rows + size.rows
    return ArrowSize(rows, total)


def _root(data: memoryview) -> _Table:
    return _Table(data, struct.unpack_from("<I", data)[0])


def _column(field: _Table) -> _Column:
    encoding = field.table(4)
    if encoding is None:
        return _values(field)
    index = encoding.table(1)
    bits = _int_bits(index) if index is not None else 32
    return _Column(fixed_bits=bits, dictionary=encoding.number(0, "<q"))


def _values(field: _Table) -> _Column:
    """Return the buffers of a column's own type, or of its dictionary's values."""
    if any(pair.text(0).startswith(_EXTENSION) for pair in field.tables(6)):
        raise ArrowFileError("a column has a type of some extension")
    kind, about = field.number(2, "<B"), field.table(3)
    if about is None or list(field.tables(5)):
        raise ArrowFileError("a column has no type, or columns within it")
    if kind in _OFFSET_BYTES:
        return _Column(offset_bytes=_OFFSET_BYTES[kind])
    if kind in _VIEWS:
        return _Column(fixed_bits=128, is_view=True)
    if kind == _BOOL:
        return _Column(fixed_bits=1)
    if kind == _INT:
        return _Column(fixed_bits=_int_bits(about))
    if kind in (_TIMESTAMP, _DURATION):
        return _Column(fixed_bits=64)
    if kind == _TIME:
        bits = about.number(1, "<i", 32)
        if bits in (32, 64):
            return _Column(fixed_bits=bits)
    sizes, default = {_FLOAT: (_FLOAT_BYTES, 0), _DATE: (_DATE_BYTES, 1)}.get(kind, ((), 0))
    size = about.number(0, "<h", default)
    if not 0 <= size < len(sizes):
        raise ArrowFileError(f"a column has type {kind}, which no table has")
    return _Column(fixed_bits=8 * sizes[size])


def _int_bits(about: _Table) -> int:
    bits = about.number(0, "<i")
    if bits not in _BITS:
        raise ArrowFileError(f"a column has integers of {bits} bits")
    return bits


def _check_overlaps(blocks: list[tuple[int, ...]], end: int) -> None:
    at = _HEAD
    for offset, metadata_bytes, body_bytes in blocks:
        is_valid = metadata_bytes >= _HEAD and body_bytes >= 0 and offset >= at
        at = offset + metadata_bytes + body_bytes
        if not is_valid or at > end or offset % _ALIGNMENT or metadata_bytes % _ALIGNMENT:
            raise ArrowFileError("a message has no place of its own in the file")


def _part(data: memoryview, block: tuple[int, ...], kind: int) -> _Part:
    offset, metadata_bytes, body_bytes = block
    mark, length = struct.unpack_from("<II", data, offset)
    start = offset + 8
    if mark != _CONTINUATION:  # files from before 2019 lack the mark
        length, start = mark, offset + 4
    end = offset + metadata_bytes
    if start + length > end:
        raise ArrowFileError("a message is longer than its place")
    message = _root(data[start : start + length])
    header = message.table(2)
    if message.number(1, "<B") != kind or header is None:
        raise ArrowFileError("a message is of another kind than the footer says")
    if message.number(3, "<q") != body_bytes:
        raise ArrowFileError("a message and the footer differ about its length")
    return _Part(header, data[end : end + body_bytes])


def _batch_size(part: _Part, columns: list[_Column]) -> ArrowSize:
    """Return the size of a batch, whose buffers must match its columns."""
    batch = part.message
    rows = batch.number(0, "<q")
    compression = batch.table(3)
    if not 0 <= rows < _MOST_ROWS or (not columns and rows):
        raise ArrowFileError(f"a batch has {rows} rows")
    if compression is not None and compression.number(0, "<b") not in (0, 1):
        raise ArrowFileError("it is compressed in a way of which nothing is known")
    nodes = batch.structs(1, _NODE)
    views = iter([count for (count,) in batch.structs(4, "<q")])
    if len(nodes) != len(columns):
        raise ArrowFileError("a batch has other columns than the file")
    buffers = iter(batch.structs(2, _BUFFER))
    total = 0

    def take(least: int | None) -> None:
        """Check the next buffer, which has ``least`` bytes, or any number."""
        nonlocal total
        buffer = next(buffers, None)
        if buffer is None:
            raise ArrowFileError("a batch has fewer buffers than its columns need")
        size = _buffer_size(part.body, buffer, is_packed=compression is not None)
        if least is not None and not least <= size < least + _PADDING:
            raise ArrowFileError(f"a buffer has {size} bytes, not {least}")
        total += size

    for column, (length, nulls) in zip(columns, nodes, strict=True):
        if length != rows or not 0 <= nulls <= rows:
            raise ArrowFileError("a column has another number of rows than its batch")
        take(-(-rows // 8) if nulls else None)
        if column.offset_bytes:
            take((rows + 1) * column.offset_bytes if rows else None)
            take(None)
        else:
            take(-(-rows * column.fixed_bits // 8))
        if column.is_view:
            count = next(views, -1)
            if not 0 <= count <= len(part.body):
                raise ArrowFileError("a batch does not say how many buffers its texts have")
            for _ in range(count):
                take(None)
    if next(buffers, None) is not None or next(views, None) is not None:
        raise ArrowFileError("a batch has more buffers than its columns need")
    return ArrowSize(rows, total)


def _buffer_size(body: memoryview, buffer: tuple[int, ...], *, is_packed: bool) -> int:
    offset, length = buffer
    if not 0 <= length <= len(body) or not 0 <= offset <= len(body) - length:
        raise ArrowFileError("a buffer lies outside of its batch")
    if offset % _ALIGNMENT:
        raise ArrowFileError("a buffer begins at a place that is not aligned")
    if not is_packed or not length:
        return length
    (size,) = struct.unpack_from("<q", body[offset : offset + length])
    if size == _UNCOMPRESSED:
        return length - 8
    if size < 0:
        raise ArrowFileError(f"a buffer unpacks to {size} bytes")
    return int(size)
