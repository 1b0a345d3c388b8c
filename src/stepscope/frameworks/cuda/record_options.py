"""Which records of CUPTI are asked for, beside the device's work and the calls."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stepscope.frameworks.cuda.cupti import OVERRIDE, has_driver
from stepscope.frameworks.cuda.options import DEVICE_RECORDS
from stepscope.notices import notify
from stepscope.record.options import DEVICE
from stepscope.record.source import Source, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions


class AskedRecords(Source):
    """Says so where such records are asked for and no device is recorded.

    They come with the device's work: ``source.CudaActivity``.
    """

    name = "device records"
    stage = Stage.DEVICE
    when = DEVICE_RECORDS

    def __init__(self, wanted: Sequence[str], *, with_device: bool) -> None:
        self._wanted, self._with_device = wanted, with_device

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        return cls(options[DEVICE_RECORDS], with_device=options[DEVICE])

    def start(self) -> None:
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
