"""Loads NVML, the driver's library that reports the state of devices."""

from __future__ import annotations

import os

from stepscope import _native

OVERRIDE = "STEPSCOPE_NVML"  # the path of a libnvidia-ml.so to use, or "off"
_LIBRARY = "libnvidia-ml.so.1"
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class NvmlUnavailableError(Exception):
    """No usable NVML was found."""


def load_nvml() -> None:
    wish = os.environ.get(OVERRIDE, _LIBRARY)
    if wish == "off":
        raise NvmlUnavailableError(f"{OVERRIDE} is off")
    try:
        _native.load_nvml(wish)
    except RuntimeError as error:
        raise NvmlUnavailableError(str(error)) from None


def visible_devices() -> list[int]:
    """Return NVML's numbers of the visible devices; empty for all, or if unknown."""
    words = os.environ.get(_VISIBLE, "").split(",")
    return [int(word) for word in words] if all(word.strip().isdigit() for word in words) else []
