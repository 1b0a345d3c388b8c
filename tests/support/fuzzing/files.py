"""Damages a trace file of another tool as somebody does who knows its format; gzip by bytes."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from fuzzing.databases import damaged_database
from fuzzing.pickles import damaged_pickle
from fuzzing.values import damaged_bytes, damaged_json, damaged_table, hostile_text

if TYPE_CHECKING:
    import random
    from pathlib import Path

_VARINT, _BYTES = 0, 2
_EDGES = (0, 1, 127, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)

Field = tuple[int, int, "int | bytes"]  # number, wire type, value


def mutate(whole: Path, place: Path, rng: random.Random) -> str:
    """Write a damaged copy of a file to ``place``; return in words what was done."""
    data = whole.read_bytes()
    if rng.random() < 0.2:
        data, what = damaged_bytes(data, rng), "bytes"
    elif rng.random() < 0.06:
        data, what = data[: rng.randrange(len(data) + 1)], "cut"
    elif whole.suffix == ".json":
        data, what = damaged_json(data.decode(), rng)
    elif whole.suffix == ".pickle":
        data, what = damaged_pickle(data, rng)
    elif whole.suffix in {".sqlite", ".db", ".rpd"}:
        data, what = damaged_database(data, rng)
    elif whole.suffix == ".csv":
        data, what = damaged_table(data.decode(), rng)
    else:
        data, what = damaged_message(data, rng), "fields"
    if rng.random() < 0.1:
        data, what = gzip.compress(data, 1), f"gzip of {what}"
        if rng.random() < 0.5:
            data, what = damaged_bytes(data, rng), f"damaged {what}"
    place.write_bytes(data)
    return what


def damaged_message(data: bytes, rng: random.Random, depth: int = 0) -> bytes:
    """Return a protobuf message with one field that is another, at any depth."""
    fields = _fields(data)
    if not fields:
        return damaged_bytes(data, rng) if data else hostile_text(rng).encode("utf-8", "replace")
    at = rng.randrange(len(fields))
    number, wire, value = fields[at]
    if isinstance(value, bytes) and depth < 8 and rng.random() < 0.75 and _fields(value):
        fields[at] = (number, wire, damaged_message(value, rng, depth + 1))
        return _encoded(fields)
    match rng.randrange(6):
        case 0:
            del fields[at]
        case 1:
            fields.insert(at, fields[at])
        case 2:
            fields[at] = (rng.randrange(1, 20), wire, value)
        case 3:
            fields[at] = (number, _VARINT, rng.choice(_EDGES))
        case 4:
            fields[at] = (number, _BYTES, hostile_text(rng).encode("utf-8", "surrogatepass"))
        case _ if isinstance(value, int):
            fields[at] = (number, wire, (value + rng.choice((-1, 1, 10**6))) % 2**64)
        case _:
            fields[at] = (number, wire, damaged_bytes(value, rng))
    return _encoded(fields)


def _fields(data: bytes) -> list[Field]:
    """Return the fields of a message; none where it is not one."""
    collected: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == _VARINT:
            value, at = _varint(data, at)
            collected.append((tag >> 3, _VARINT, value))
        elif tag & 7 == _BYTES:
            size, at = _varint(data, at)
            if at < 0 or at + size > len(data):
                return []
            collected.append((tag >> 3, _BYTES, data[at : at + size]))
            at += size
        else:
            return []
        if at < 0 or not tag >> 3:
            return []
    return collected


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while 0 <= at < len(data):
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 128:
            return value, at
    return 0, -1


def _encoded(fields: list[Field]) -> bytes:
    out = bytearray()
    for number, _, value in fields:
        if isinstance(value, int):
            out += _as_varint(number << 3 | _VARINT) + _as_varint(value)
        else:
            out += _as_varint(number << 3 | _BYTES) + _as_varint(len(value)) + value
    return bytes(out)


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 127
        out.append(low | (128 if value else 0))
        if not value:
            return bytes(out)
