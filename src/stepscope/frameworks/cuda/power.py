"""How much power devices take, how fast they run and how hot they are, through NVML.

A native thread reads them every 20 ms, without the GIL. Energy is counted by the device itself
where it does; else it is what the power adds up to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.frameworks.cuda.nvml import NvmlUnavailableError, load_nvml, visible_devices
from stepscope.frameworks.cuda.reader import DeviceReader
from stepscope.record.limits import native_limit
from stepscope.record.options import Option
from stepscope.units import count_text, duration_text, percent_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.trace.schema import Captured

INTERVAL_NS = 20_000_000
"""Devices measure their power about so often; a reading takes the driver some 0.1 ms."""


POWER = Option("power", False, "--power", "also record the GPUs' power, clocks, temperature")


class Power(DeviceReader[_native.PowerSampler]):
    """The source."""

    name = "nvml"
    when = POWER
    what = "power and clocks"
    default_interval_ns = INTERVAL_NS

    def prepare(self) -> None:
        """Load NVML."""
        if self._obstacle:
            return
        try:
            load_nvml()
        except NvmlUnavailableError as error:
            self.fail(f"NVML, which comes with the NVIDIA driver, cannot be used: {error}")

    def made(self) -> _native.PowerSampler:
        """Return what reads the devices that the program may use."""
        return _native.PowerSampler(
            interval_ns=self._interval_ns,
            devices=visible_devices(),
            **native_limit(self._limit),
        )

    def captured(
        self, columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]
    ) -> Captured | None:
        """Return the readings."""
        from stepscope.frameworks.cuda.power_columns import power_captured

        return power_captured(columns, devices) if len(columns["time_ns"]) else None

    def described(self, columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]) -> str:
        """Say how often devices were read, and what that cost."""
        if not columns["passes"]:
            return "nothing was read"
        every_ns = columns["wall_ns"] / max(columns["passes"] - 1, 1)
        cost = percent_text(columns["cpu_ns"], columns["wall_ns"])
        is_told = (columns["power_mw"] >= 0).any()
        untold = "" if is_told else "; the device does not report its power"
        return (
            f"NVML, {count_text(len(devices), 'device')} every {duration_text(every_ns)}, "
            f"using {cost} of a core{untold}"
        )

    def describe_running(self) -> str:
        """Say how often devices are meant to be read."""
        return self.describe() or f"NVML, every {duration_text(self._interval_ns)}"
