"""The sources of CUDA devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.frameworks.cuda.options import COUNTERS, DEVICE_RECORDS, POWER
from stepscope.record.source import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.record.source import Source


@with_options(DEVICE_RECORDS, COUNTERS, POWER)
def device_sources() -> Sequence[type[Source]]:
    from stepscope.frameworks.cuda.activity import AskedRecords, CudaActivity
    from stepscope.frameworks.cuda.counter_source import HardwareCounters
    from stepscope.frameworks.cuda.power import Power

    return AskedRecords, CudaActivity, HardwareCounters, Power
