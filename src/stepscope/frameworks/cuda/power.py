"""Records power, clocks and temperature of devices through NVML.

A native thread reads them every 20 ms without the GIL. Energy comes from the device's own counter
if it has one, else from the sum of power.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.frameworks.cuda.nvml import NvmlUnavailableError, load_nvml, visible_devices
from stepscope.frameworks.cuda.options import POWER
from stepscope.frameworks.cuda.reader import DeviceReader
from stepscope.record.limits import native_limit
from stepscope.units import count_text, duration_text, percent_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured

INTERVAL_NS = 20_000_000
"""Devices measure their power about so often; a reading takes the driver some 0.1 ms."""


class Power(DeviceReader[_native.PowerSampler]):
    name = "nvml"
    when = POWER
    what = "power and clocks"
    interval_ns = INTERVAL_NS

    def prepare(self) -> None:
        if self._obstacle:
            return
        try:
            load_nvml()
        except NvmlUnavailableError as error:
            self.fail(f"NVML, which comes with the NVIDIA driver, cannot be used: {error}")

    def made(self) -> _native.PowerSampler:
        return _native.PowerSampler(
            interval_ns=self.interval_ns,
            devices=visible_devices(),
            **native_limit(self._limit),
        )

    def start(self) -> None:
        super().start()
        self._note_devices()

    def stop(self) -> None:
        super().stop()
        self._note_devices()

    def _note_devices(self) -> None:
        if (native := self.reading) is not None:
            _native.note_value_in_stream(self.name, {"devices": self.devices_of(native)})

    def devices_of(self, native: _native.PowerSampler) -> Sequence[Mapping[str, Any]]:
        from stepscope.frameworks.cuda.devices import with_cuda_numbers

        return with_cuda_numbers(native.devices())

    @classmethod
    def recover(cls, remains: LeftBehind) -> Captured | None:
        noted = remains.meta.get(cls.name, {}).get("devices")
        devices = (
            [device for device in noted if _is_device(device)] if isinstance(noted, list) else []
        )
        return cls.captured(remains.native.power(), devices)

    @staticmethod
    def captured(
        columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]
    ) -> Captured | None:
        from stepscope.frameworks.cuda.counter_columns import power_captured

        return power_captured(columns, devices) if len(columns["time_ns"]) else None

    def described(self, counts: Mapping[str, int], devices: Sequence[Mapping[str, Any]]) -> str:
        """Describe how often devices were read and what that cost."""
        if not counts["passes"]:
            return "nothing was read"
        every_ns = counts["wall_ns"] / max(counts["passes"] - 1, 1)
        cost = percent_text(counts["cpu_ns"], counts["wall_ns"])
        untold = "" if counts["tells_power"] else "; the device does not report its power"
        return (
            f"NVML, {count_text(len(devices), 'device')} every {duration_text(every_ns)}, "
            f"using {cost} of a core{untold}"
        )

    def describe_running(self) -> str:
        return self.describe() or f"NVML, every {duration_text(self.interval_ns)}"


def _is_device(device: object) -> bool:
    if not isinstance(device, dict):
        return False
    numbers = [device.get(key) for key in ("number", "power_limit_mw", "most_sm_mhz")]
    number = device.get("cuda", 0)
    return all(_is_number(number, -1) for number in numbers) and (
        number is None or _is_number(number, 0)
    )


def _is_number(value: object, least: int) -> bool:
    return type(value) is int and least <= value < 1 << 31
