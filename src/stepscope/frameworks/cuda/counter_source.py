"""Hardware counters of devices over time, through CUPTI's PM sampling.

The device samples itself every ms into a buffer that a native thread decodes, without the GIL.
Kernels are neither replayed nor serialised. A device is sampled from when the program first uses
it. The driver may let only an administrator read counters.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.frameworks.cuda.cupti import OVERRIDE, has_driver
from stepscope.notices import notify
from stepscope.record.limits import Keep
from stepscope.record.options import COUNTERS
from stepscope.record.source import Source, Stage
from stepscope.units import duration_text, percent_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.trace.schema import Captured

INTERVAL_NS = 1_000_000
"""How often the device samples itself: shorter than most steps, and some MB a minute."""

_SHARE = "pct_of_peak_sustained_elapsed"
# What each counter is called here, and NVIDIA's metrics for it: chips differ, the first that a chip
# has together with the others is used.
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


class HardwareCounters(Source):
    """The source. Where counters cannot be read it says so, once, and all else is recorded."""

    name = "counters"
    stage = Stage.DEVICE
    when = COUNTERS

    def __init__(self, limit: MemoryLimit | None = None, interval_ns: int = INTERVAL_NS) -> None:
        """Nothing is loaded yet."""
        self._limit = limit
        self._interval_ns = interval_ns
        self._obstacle = ""
        self._native: _native.CounterSampler | None = None
        self._says = ""
        self._lost_before = 0  # it started this time

    @classmethod
    def made_for(cls, _options: RecordOptions, limit: MemoryLimit | None) -> Source:
        """Make one that keeps no more than the limit."""
        return cls(limit)

    def start(self) -> None:
        """Begin to sample the devices that the program uses."""
        self._lost_before = self.lost
        if self._obstacle:
            return
        try:
            self._native = self._made()
        except (RuntimeError, _UnavailableError) as error:
            self._fail(str(error))
            return
        if not self._native.start():
            self._native = None
            self._fail("no thread could be started")

    def _made(self) -> _native.CounterSampler:
        from stepscope.frameworks.cuda.source import CuptiUnavailableError, cupti_path

        if not has_driver():
            raise _UnavailableError("no NVIDIA driver is loaded")
        if os.environ.get(OVERRIDE) == "off":
            raise _UnavailableError(f"{OVERRIDE} is off")
        try:
            path = cupti_path()
        except CuptiUnavailableError as error:
            raise _UnavailableError(str(error)) from None
        limit = self._limit
        return _native.CounterSampler(
            cupti_path=path,
            interval_ns=self._interval_ns,
            limit_bytes=limit.bytes if limit else 0,
            keep_newest=limit is not None and limit.keep is Keep.NEWEST,
            age_ns=int(limit.seconds * 1e9) if limit else 0,
            candidates=[list(names) for names in METRICS.values()],
        )

    def _fail(self, why: str) -> None:
        self._obstacle = why
        notify(f"hardware counters are not recorded: {why}")

    def stop(self) -> None:
        """Sample no longer; say why a device was not."""
        if self._native is None:
            return
        self._native.stop()
        for device in self._native.devices():
            if device["obstacle"]:
                self._fail(f"device {device['number']}: {device['obstacle']}")
                self._obstacle = ""  # it may be otherwise the next time

    def collect(self) -> Captured | None:
        """Return the samples, once."""
        return self.hand_over()()

    def hand_over(self) -> Callable[[], Captured | None]:
        """Let go of the samples."""
        native, self._native = self._native, None
        return lambda: self._captured(native)

    def so_far(self) -> Captured | None:
        """Return the samples until now; it goes on."""
        return self._captured(self._native)

    def _captured(self, native: _native.CounterSampler | None) -> Captured | None:
        if native is None:
            return None
        from stepscope.frameworks.cuda.counter_columns import counters_captured_of

        columns, devices = native.columns(), native.devices()
        self.lost = self._lost_before + columns["lost"]
        self._says = self._described(columns, devices)
        return counters_captured_of(columns, devices, list(METRICS))

    def _described(self, columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]) -> str:
        if not devices:
            return "none: the program used no device"
        if failed := [each for each in devices if each["obstacle"]]:
            return f"not recorded: device {failed[0]['number']}: {failed[0]['obstacle']}"
        names = [
            name for name, metric in zip(METRICS, devices[0]["metrics"], strict=True) if metric
        ]
        cost = percent_text(columns["cpu_ns"], columns["wall_ns"])
        full = "; some were lost: the buffer was full" if devices[0]["overflowed"] else ""
        every = duration_text(self._interval_ns)
        return (
            f"{', '.join(names)} of {devices[0]['chip']} every {every}, "
            f"using {cost} of a core{full}"
        )

    def describe(self) -> str:
        """Say what was sampled, and what that cost."""
        return f"not recorded: {self._obstacle}" if self._obstacle else self._says


class _UnavailableError(Exception):
    """Counters cannot be read here."""
