"""The small messages of Paddle's protobuf: fields and values; the native writer encodes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.frameworks.paddle.views.arguments import input_lists
from stepscope.trace.event_types import TracerEventType
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import CALL_STACK

if TYPE_CHECKING:
    from collections.abc import Mapping

    Fields = list[tuple[int, Any]]  # a number, and an int, a float, a text or fields again

# Kineto's words and Paddle's for the same.
_OCCUPANCY = ("theoretical achieved occupancy %", "est. achieved occupancy %")


def supplement(fragment: str) -> Fields:
    """Return what a slice's arguments say of an operator as fields of a supplement event."""
    pairs = pairs_of(fragment)
    shapes, dtypes = input_lists(pairs)
    sizes = {name: [[(1, n) for n in shape] for shape in each] for name, each in shapes.items()}
    said: Fields = [(5, _keyed(sizes)), (6, _keyed(dtypes))]
    said += [(2, _word(pairs.get("Op type"))), (7, _word(pairs.get(CALL_STACK)))]
    return [(field, value) for field, value in said if value]


def _keyed(lists: Mapping[str, list[Any]]) -> Fields:
    keys: Fields = [(1, name) for name in lists]
    return keys + [(2, [(1, item) for item in each]) for each in lists.values()]


def device_info(event_type: int, fragment: str) -> Fields:
    """Return what a device slice's fragment says, as fields of the details of its type."""
    pairs = pairs_of(fragment)
    if event_type == TracerEventType.Kernel:
        return _kernel_info(pairs)
    if event_type == TracerEventType.Memcpy:
        kinds = ("copy kind", "src kind", "dst kind")
        return [(i, _word(pairs.get(key))) for i, key in enumerate(kinds, 2)]
    if event_type == TracerEventType.Memset:
        return [(2, _word(pairs.get("memory kind")))]
    return []


def _kernel_info(pairs: Mapping[str, Any]) -> Fields:
    sizes = [*_triple(pairs.get("block")), *_triple(pairs.get("grid"))]
    occupancy = next((pairs[key] for key in _OCCUPANCY if key in pairs), 0)
    return [
        *enumerate(sizes, 1),
        (15, _float(pairs.get("blocks per SM"))),
        (16, _float(pairs.get("warps per SM"))),
        (17, _float(occupancy) / 100),
    ]


def _triple(value: Any) -> list[int]:
    is_triple = isinstance(value, list) and len(value) == 3 and all(type(v) is int for v in value)
    return [size & 0xFFFFFFFF for size in value] if is_triple else [0, 0, 0]


def _float(value: Any) -> float:
    try:
        return float(value) if value else 0.0
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
