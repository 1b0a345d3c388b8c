"""Small pieces of Paddle's protobuf: what a trace holds as JSON fragments, encoded once each."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.paddle.views.nodes import input_lists, parsed
from stepscope.trace.event_types import TracerEventType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_VARINT, _BYTES, _FIXED32 = 0, 2, 5
_MASK = (1 << 64) - 1

# Kineto's words and Paddle's for the same.
_OCCUPANCY = ("theoretical achieved occupancy %", "est. achieved occupancy %")


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it; negative ones as 64 bits."""
    value &= _MASK
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Return a field that holds an integer."""
    return varint(field << 3 | _VARINT) + varint(value)


def single(field: int, value: float) -> bytes:
    """Return a field that holds a float of 32 bits."""
    return varint(field << 3 | _FIXED32) + struct.pack("<f", value)


def text(field: int, value: str | bytes) -> bytes:
    """Return a field that holds a text or a message."""
    data = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def supplement(fragment: str) -> bytes:
    """Return what a slice's arguments say of an operator as fields of a supplement event."""
    pairs = parsed(fragment)
    shapes, dtypes = input_lists(pairs)
    stack, kind = pairs.get("Call stack"), pairs.get("Op type")
    out = b""
    if shapes:
        lists = (
            b"".join(text(1, b"".join(number(1, size) for size in shape)) for shape in each)
            for each in shapes.values()
        )
        out += text(5, _keyed(shapes, lists))
    if dtypes:
        lists = (b"".join(text(1, dtype) for dtype in each) for each in dtypes.values())
        out += text(6, _keyed(dtypes, lists))
    if isinstance(kind, str) and kind:
        out += text(2, kind)
    if isinstance(stack, str) and stack:
        out += text(7, stack)
    return out


def _keyed(names: Iterable[str], lists: Iterable[bytes]) -> bytes:
    keys = b"".join(text(1, name) for name in names)
    return keys + b"".join(text(2, each) for each in lists)


def device_info(event_type: int, fragment: str) -> bytes:
    """Return what a device slice's fragment says, as fields of the details of its type."""
    pairs = parsed(fragment)
    if event_type == TracerEventType.Kernel:
        return _kernel_info(pairs)
    if event_type == TracerEventType.Memcpy:
        kinds = ("copy kind", "src kind", "dst kind")
        return b"".join(text(i, _word(pairs.get(key))) for i, key in enumerate(kinds, 2))
    if event_type == TracerEventType.Memset:
        return text(2, _word(pairs.get("memory kind")))
    return b""


def _kernel_info(pairs: Mapping[str, Any]) -> bytes:
    sizes = [*_triple(pairs.get("block")), *_triple(pairs.get("grid"))]
    out = b"".join(number(field, size) for field, size in enumerate(sizes, 1))
    occupancy = next((pairs[key] for key in _OCCUPANCY if key in pairs), 0)
    return (
        out
        + single(15, _float(pairs.get("blocks per SM")))
        + single(16, _float(pairs.get("warps per SM")))
        + single(17, _float(occupancy) / 100)
    )


def _triple(value: Any) -> list[int]:
    is_triple = isinstance(value, list) and len(value) == 3 and all(type(v) is int for v in value)
    return [size & 0xFFFFFFFF for size in value] if is_triple else [0, 0, 0]


def _float(value: Any) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", float(value)))[0] if value else 0.0
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
