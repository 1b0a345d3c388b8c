"""Samples hardware counters of devices through CUPTI's PM sampling.

The device writes a sample per ms into a buffer, which a native thread decodes without the GIL.
Kernels are neither replayed nor serialised. Sampling of a device begins when the program first
uses it. The driver may allow only administrators to read counters.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.frameworks.cuda.cupti import OVERRIDE, has_driver
from stepscope.frameworks.cuda.options import COUNTERS
from stepscope.frameworks.cuda.reader import DeviceReader, UnreadableError
from stepscope.record.limits import native_limit
from stepscope.units import duration_text, percent_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured

INTERVAL_NS = 1_000_000
"""How often the device samples itself: shorter than most steps, and some MB a minute."""

_SHARE = "pct_of_peak_sustained_elapsed"
# The name of each counter, and NVIDIA's metrics for it: chips differ, so the first metric is used
# that the chip can sample together with the others.
METRICS: Mapping[str, Sequence[str]] = {
    "SM active": (f"sm__cycles_active.avg.{_SHARE}",),
    "DRAM throughput": (
        f"dram__throughput.avg.{_SHARE}",
        f"dramc__throughput.avg.{_SHARE}",
        f"dram__read_throughput.avg.{_SHARE}",
        f"dramc__read_throughput.avg.{_SHARE}",
    ),
    "tensor pipe": (
        f"sm__pipe_tensor_cycles_active.avg.{_SHARE}",
        f"sm__inst_executed_pipe_tensor.avg.{_SHARE}",
        f"sm__pipe_tensor_cycles_active_realtime.avg.{_SHARE}",
        f"sm__inst_executed_pipe_tensor_realtime.avg.{_SHARE}",
    ),
}


class HardwareCounters(DeviceReader[_native.CounterSampler]):
    name = "counters"
    when = COUNTERS
    what = "hardware counters"
    interval_ns = INTERVAL_NS

    def made(self) -> _native.CounterSampler:
        from stepscope.frameworks.cuda.activity import CuptiUnavailableError, cupti_path

        if not has_driver():
            raise UnreadableError("no NVIDIA driver is loaded")
        if os.environ.get(OVERRIDE) == "off":
            raise UnreadableError(f"{OVERRIDE} is off")
        try:
            path = cupti_path()
        except CuptiUnavailableError as error:
            raise UnreadableError(str(error)) from None
        return _native.CounterSampler(
            cupti_path=path,
            interval_ns=self.interval_ns,
            candidates=[list(names) for names in METRICS.values()],
            **native_limit(self._limit),
        )

    def stop(self) -> None:
        super().stop()
        for device in self.reading.devices() if self.reading is not None else ():
            if device["obstacle"]:
                self.fail(f"device {device['number']}: {device['obstacle']}")
                self._obstacle = ""  # it may be gone at the next start

    @classmethod
    def recover(cls, remains: LeftBehind) -> Captured | None:
        devices = [
            device
            for device in remains.native.counter_devices()
            if len(device["metrics"]) == len(METRICS) and _are_moments(device["bounds"])
        ]
        return cls.captured(remains.native.counters(), devices)

    @staticmethod
    def captured(
        columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]
    ) -> Captured | None:
        from stepscope.frameworks.cuda.counter_columns import hardware_counters_captured

        return hardware_counters_captured(columns, devices, list(METRICS))

    def described(self, counts: Mapping[str, int], devices: Sequence[Mapping[str, Any]]) -> str:
        """Describe which counters were sampled and what that cost."""
        if not devices:
            return "none: the program used no device"
        if failed := [device for device in devices if device["obstacle"]]:
            return f"not recorded: device {failed[0]['number']}: {failed[0]['obstacle']}"
        names = [
            name for name, metric in zip(METRICS, devices[0]["metrics"], strict=True) if metric
        ]
        cost = percent_text(counts["cpu_ns"], counts["wall_ns"])
        full = "; some were lost: the buffer was full" if devices[0]["overflowed"] else ""
        every = duration_text(self.interval_ns)
        return (
            f"{', '.join(names)} of {devices[0]['chip']} every {every}, "
            f"using {cost} of a core{full}"
        )


def _are_moments(bounds: Sequence[Sequence[int]]) -> bool:
    return all(abs(moment) < 1 << 61 for bound in bounds for moment in bound)
