"""Peaks that `stepscope device-peaks` measured, by the device's name; the roofline prefers them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from stepscope.analysis.device.peaks import Peaks, peaks_of
from stepscope.errors import StepscopeError
from stepscope.private_folders import cache_places

_FILE = "device-peaks.json"


def best_peaks(device_name: str) -> Peaks | None:
    """Return what a device was measured to do, else what its maker says; None when neither is."""
    told = peaks_of(device_name)
    for folder in cache_places():
        measured = _read(folder / _FILE).get(device_name)
        found = _peaks(measured) if isinstance(measured, dict) else None
        if found is not None:
            others = told.flops_per_second if told is not None else {}
            return Peaks({**others, **found.flops_per_second}, found.bytes_per_second, found.source)
    return told


def keep_measured(
    device_name: str, flops_per_second: Mapping[str, float], bytes_per_second: float, when: str
) -> Path:
    """Write measured peaks where `best_peaks` finds them; returns the file."""
    entry = {
        "flops_per_second": dict(flops_per_second),
        "bytes_per_second": bytes_per_second,
        "when": when,
    }
    failed: OSError | None = None
    for folder in cache_places():
        path = folder / _FILE
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            text = json.dumps({**_read(path), device_name: entry}, indent=2)
            path.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            failed = error
            continue
        return path
    raise StepscopeError(
        f"the peaks cannot be saved: {failed}; set STEPSCOPE_CACHE_DIR to a folder that can be "
        "written"
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _peaks(entry: dict[str, Any]) -> Peaks | None:
    flops, memory = entry.get("flops_per_second"), entry.get("bytes_per_second")
    if not isinstance(flops, dict) or not _is_rate(memory):
        return None
    known = {str(kind): float(rate) for kind, rate in flops.items() if _is_rate(rate)}
    when = str(entry.get("when", ""))
    return Peaks(known, memory, f"measured by stepscope device-peaks, {when}".rstrip(", "))


def _is_rate(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
