"""What NVML tells of devices, written down by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.frameworks.cuda.counter_columns import power_captured
from stepscope.trace.build import build
from stepscope.trace.join import merge_parts

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

NO_READING = -1
DEVICE = {
    "number": 0,
    "name": b"Stand-in",
    "pci": (0, 0x1B, 0),
    "cuda": 0,
    "power_limit_mw": 300_000,
    "most_sm_mhz": 2_000,
}


def readings(time_ns: list[int], **values: list[int]) -> dict[str, Any]:
    """Return readings of one device; what is not told is absent."""
    keys = ("power_mw", "energy_mj", "sm_mhz", "memory_mhz", "celsius")
    keys += ("busy_percent", "memory_busy_percent", "reasons")
    count = len(time_ns)
    columns = {key: np.array(values.get(key, [NO_READING] * count), np.int64) for key in keys}
    return columns | {
        "time_ns": np.array(time_ns, np.int64),
        "device": np.zeros(count, np.int64),
    }


def with_power(trace: Trace, columns: dict[str, Any]) -> Trace:
    """Return a trace in which a device was read, too."""
    return build(merge_parts([trace, power_captured(columns, [DEVICE])]), trace.info)
