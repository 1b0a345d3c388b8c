"""Which records of CUPTI are asked for, beside the device's work and the calls."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.cuda.cupti import OVERRIDE, has_driver
from stepscope.notices import notify
from stepscope.record.options import DEVICE, Option
from stepscope.record.source import Source, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions

SYNC, EVENTS, MEMORY = "sync", "events", "memory"
_BITS = {SYNC: 1, EVENTS: 2, MEMORY: 4}  # the native core's


def wanted_records(given: object) -> tuple[str, ...]:
    """Return the kinds of records that ``sync,events,memory``, ``all`` or a list of them name."""
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
)


def bits_of(wanted: Sequence[str]) -> int:
    """Return the native core's number for some kinds of records."""
    return sum(_BITS[word] for word in wanted)


class AskedRecords(Source):
    """Says so where such records are asked for and no device is recorded.

    They come with the device's work: ``source.CudaActivity``.
    """

    name = "device records"
    stage = Stage.DEVICE
    when = DEVICE_RECORDS

    def __init__(self, wanted: Sequence[str], *, with_device: bool) -> None:
        """Take the kinds, and whether the device is recorded at all."""
        self._wanted, self._with_device = wanted, with_device

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        """Make one for the kinds that are asked for."""
        return cls(options[DEVICE_RECORDS], with_device=options[DEVICE])

    def start(self) -> None:
        """Say what is missing, once."""
        if why := self._obstacle():
            notify(f"no {', '.join(self._wanted)} records of the device: {why}")

    def _obstacle(self) -> str:
        if not has_driver():
            return "no NVIDIA driver is loaded"
        if os.environ.get(OVERRIDE) == "off":
            return f"{OVERRIDE} is off"
        return "" if self._with_device else "the activities do not include the device"

    def stop(self) -> None:
        """Do nothing: there is nothing to end."""
