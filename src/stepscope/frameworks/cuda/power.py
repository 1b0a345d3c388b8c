"""How much power devices take, how fast they run and how hot they are, through NVML.

A native thread reads them every 20 ms, without the GIL. Energy is counted by the device itself
where it does; else it is what the power adds up to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.frameworks.cuda.nvml import NvmlUnavailableError, load_nvml, visible_devices
from stepscope.notices import notify
from stepscope.record.limits import Keep
from stepscope.record.options import POWER
from stepscope.record.source import Source, Stage
from stepscope.units import count_text, duration_text, percent_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.trace.schema import Captured

INTERVAL_NS = 20_000_000
"""Devices measure their power about so often; a reading takes the driver some 0.1 ms."""


class Power(Source):
    """The source. Without NVML it says so, once, and does nothing."""

    name = "nvml"
    stage = Stage.DEVICE
    when = POWER

    def __init__(self, limit: MemoryLimit | None = None, interval_ns: int = INTERVAL_NS) -> None:
        """Nothing is loaded yet."""
        self._limit = limit
        self._interval_ns = interval_ns
        self._obstacle = ""
        self._native: _native.PowerSampler | None = None
        self._says = ""
        self._lost_before = 0  # it started this time

    @classmethod
    def made_for(cls, _options: RecordOptions, limit: MemoryLimit | None) -> Source:
        """Make one that keeps no more than the limit."""
        return cls(limit)

    def prepare(self) -> None:
        """Load NVML."""
        if self._obstacle:
            return
        try:
            load_nvml()
        except NvmlUnavailableError as error:
            self._fail(f"NVML, which comes with the NVIDIA driver, cannot be used: {error}")

    def start(self) -> None:
        """Begin to read."""
        self.prepare()
        self._lost_before = self.lost
        if self._obstacle:
            return
        limit = self._limit
        try:
            native = _native.PowerSampler(
                interval_ns=self._interval_ns,
                limit_bytes=limit.bytes if limit else 0,
                keep_newest=limit is not None and limit.keep is Keep.NEWEST,
                age_ns=int(limit.seconds * 1e9) if limit else 0,
                devices=visible_devices(),
            )
        except RuntimeError as error:
            self._fail(str(error))
            return
        if native.start():
            self._native = native
        else:
            self._fail("no thread could be started")

    def _fail(self, why: str) -> None:
        self._obstacle = why
        notify(f"power and clocks are not recorded: {why}")

    def stop(self) -> None:
        """Read once more, and no longer; a forked child has nothing to stop."""
        if self._native is not None:
            self._native.stop()

    def collect(self) -> Captured | None:
        """Return the readings, once."""
        return self.hand_over()()

    def hand_over(self) -> Callable[[], Captured | None]:
        """Let go of the readings."""
        native, self._native = self._native, None
        return lambda: self._captured(native)

    def so_far(self) -> Captured | None:
        """Return the readings until now; it goes on."""
        return self._captured(self._native)

    def _captured(self, native: _native.PowerSampler | None) -> Captured | None:
        if native is None:
            return None
        from stepscope.frameworks.cuda.power_columns import power_captured

        columns, devices = native.columns(), native.devices()
        self.lost = self._lost_before + columns["lost"]
        self._says = _described(columns, devices)
        return power_captured(columns, devices) if len(columns["time_ns"]) else None

    def describe(self) -> str:
        """Say how often devices were read, and what that cost."""
        return f"not recorded: {self._obstacle}" if self._obstacle else self._says

    def describe_running(self) -> str:
        """Say how often devices are meant to be read."""
        return self.describe() or f"NVML, every {duration_text(self._interval_ns)}"


def _described(columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]) -> str:
    if not columns["passes"]:
        return "nothing was read"
    every_ns = columns["wall_ns"] / max(columns["passes"] - 1, 1)
    cost = percent_text(columns["cpu_ns"], columns["wall_ns"])
    untold = "" if (columns["power_mw"] >= 0).any() else "; the device does not report its power"
    return (
        f"NVML, {count_text(len(devices), 'device')} every {duration_text(every_ns)}, "
        f"using {cost} of a core{untold}"
    )
