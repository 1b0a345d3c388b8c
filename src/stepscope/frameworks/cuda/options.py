"""Recording options of CUDA devices; `stepscope run` gets its flags from here alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stepscope.record.options import Option
from stepscope.record.triggers import DEVICES

if TYPE_CHECKING:
    from collections.abc import Sequence

SYNC, EVENTS, MEMORY = "sync", "events", "memory"
_BITS = {SYNC: 1, EVENTS: 2, MEMORY: 4}  # as in the native core


def wanted_records(given: object) -> tuple[str, ...]:
    """Parse ``sync,events,memory``, ``all`` or a list of these words."""
    if not given:
        return ()
    words = given.split(",") if isinstance(given, str) else given
    if not isinstance(words, Iterable):
        raise ValueError(f"{given!r} names no records of devices: use {', '.join(_BITS)} or all")
    named = [str(word).strip() for word in words]
    for word in named:
        if word not in _BITS and word != "all":
            raise ValueError(
                f"{word!r} is not a kind of device record: use {', '.join(_BITS)} or all"
            )
    return tuple(word for word in _BITS if word in named or "all" in named)


DEVICE_RECORDS: Option[Any] = Option(
    "device_records",
    (),
    "--device-records",
    "also record sync (who waited for what), events (CUDA events), memory (the driver's "
    "allocations and pools): a comma-separated list of these, or all",
    parse=wanted_records,
    at_once=DEVICES,
)


def bits_of(wanted: Sequence[str]) -> int:
    return sum(_BITS[word] for word in wanted)


COUNTERS = Option(
    "counters",
    False,
    "--counters",
    "also sample hardware counters of the GPUs: SM active, DRAM, tensor pipe; may need root",
    at_once=DEVICES,
)
POWER = Option(
    "power",
    False,
    "--power",
    "also record the GPUs' power, clocks, temperature",
    at_once=DEVICES,
)
