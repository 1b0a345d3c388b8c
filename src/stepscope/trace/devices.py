"""A trace's description of its devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepscope.trace.schema import TraceInfo


@dataclass(frozen=True, slots=True)
class Device:
    """A device; unknown values are 0 or empty."""

    id: int
    name: str
    memory_bytes: int = 0
    multiprocessors: int = 0
    compute_capability: tuple[int, int] = (0, 0)
    properties: Mapping[str, Any] = field(default_factory=dict)  # everything, under Kineto's names


def devices_of(info: TraceInfo) -> tuple[Device, ...]:
    """Return the devices that our recorder noted, or that a foreign file's header describes."""
    described: Any = info.devices or info.user.get("deviceProperties") or ()
    if not isinstance(described, list | tuple):
        return ()
    return tuple(_device(i, each) for i, each in enumerate(described) if isinstance(each, Mapping))


def _device(place: int, told: Mapping[str, Any]) -> Device:
    return Device(
        id=_number(told, "id", place),
        name=str(told.get("name", "")),
        memory_bytes=_number(told, "totalGlobalMem"),
        multiprocessors=_number(told, "numSms"),
        compute_capability=(_number(told, "computeMajor"), _number(told, "computeMinor")),
        properties=told,
    )


def _number(told: Mapping[str, Any], key: str, default: int = 0) -> int:
    value = told.get(key)
    return value if type(value) is int else default
