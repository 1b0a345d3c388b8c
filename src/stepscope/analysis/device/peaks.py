"""What devices can do at most: operations by type of number, and bytes of memory, a second.

Figures are those of the makers' data sheets for dense products, with tensor or matrix cores where
there are any: a kernel reaches 70 to 90 % of them. The first pattern that is found in a device's
name counts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from stepscope.errors import StepscopeError
from stepscope.private_folders import cache_places

_FILE = "device-peaks.json"

# The types whose peaks the tables have.
FLOAT64, FLOAT32, TF32, FLOAT16, FLOAT8 = "float64", "float32", "tf32", "float16", "float8"
BFLOAT16 = "bfloat16"  # as fast as float16, so the tables have no column for it


@dataclass(frozen=True, slots=True)
class Peaks:
    """The peaks of one model of a device."""

    flops_per_second: Mapping[str, float]  # by type; a type that is missing is not known
    bytes_per_second: float
    source: str

    def flops_in(self, kind: str) -> float:
        """Return the operations per second in an element type, 0 if unknown."""
        return self.flops_per_second.get(FLOAT16 if kind == BFLOAT16 else kind, 0.0)


def _peaks(maker: str, terabytes: float, teraflops: tuple[float, ...]) -> Peaks:
    """Make peaks from a row of the tables, in which 0 is unknown or not supported."""
    kinds = (FLOAT16, TF32, FLOAT32, FLOAT64, FLOAT8)
    flops = {kind: value * 1e12 for kind, value in zip(kinds, teraflops, strict=True) if value}
    return Peaks(flops, terabytes * 1e12, f"{maker} data sheet, dense")


# The name's pattern; then TB/s, and TFLOP/s of 16 bits, TF32, float32, float64, float8.
_NVIDIA: tuple[tuple[str, tuple[float, ...]], ...] = (
    (r"GB300|B300", (8.0, 2500.0, 1250.0, 77.0, 1.2, 5000.0)),
    (r"GB200", (8.0, 2500.0, 1250.0, 80.0, 40.0, 5000.0)),
    (r"B200", (8.0, 2250.0, 1125.0, 75.0, 37.0, 4500.0)),
    (r"H100 PCIe", (2.0, 756.0, 378.0, 51.0, 51.0, 1513.0)),
    (r"H100 NVL", (3.9, 835.0, 417.5, 60.0, 60.0, 1671.0)),
    (r"GH200", (4.9, 989.4, 494.7, 66.9, 66.9, 1978.9)),
    (r"H200 NVL", (4.8, 835.5, 417.5, 60.0, 60.0, 1671.0)),
    (r"H200", (4.8, 989.4, 494.7, 66.9, 66.9, 1978.9)),
    (r"H100", (3.35, 989.4, 494.7, 66.9, 66.9, 1978.9)),
    (r"H800", (3.35, 989.4, 494.7, 66.9, 1.0, 1978.9)),
    (r"H20\b", (4.0, 148.0, 74.0, 44.0, 1.0, 296.0)),
    (r"A[18]00.*40GB", (1.555, 312.0, 156.0, 19.5, 19.5, 0)),
    (r"A[18]00.*PCI", (1.935, 312.0, 156.0, 19.5, 19.5, 0)),
    (r"A[18]00", (2.039, 312.0, 156.0, 19.5, 19.5, 0)),
    (r"\bA6000", (0.768, 154.8, 77.4, 38.7, 0, 0)),
    (r"\bA40\b", (0.696, 149.7, 74.8, 37.4, 0, 0)),
    (r"\bA30\b", (0.933, 165.0, 82.0, 10.3, 10.3, 0)),
    (r"\bA10G", (0.6, 70.0, 35.0, 31.5, 0, 0)),
    (r"\bA10\b", (0.6, 125.0, 62.5, 31.2, 0, 0)),
    (r"L40S", (0.864, 362.0, 183.0, 91.6, 0, 733.0)),
    (r"L40\b", (0.864, 181.0, 90.5, 90.5, 0, 362.0)),
    (r"L20\b", (0.864, 119.5, 59.8, 59.8, 0, 239.0)),
    (r"L4\b", (0.3, 121.0, 60.0, 30.3, 0, 242.0)),
    (r"V100", (0.9, 125.0, 0, 15.7, 7.8, 0)),
    (r"T4\b", (0.32, 65.0, 0, 8.1, 0, 0)),
    (r"RTX 6000 Ada", (0.96, 364.2, 182.1, 91.1, 0, 728.5)),
    (r"RTX 5090", (1.792, 209.5, 104.8, 104.8, 0, 419.0)),
    (r"RTX 5080", (0.96, 112.6, 56.3, 56.3, 0, 225.1)),
    (r"RTX 4090", (1.008, 165.2, 82.6, 82.6, 0, 330.3)),
    (r"RTX 4080", (0.717, 97.5, 48.7, 48.7, 0, 194.9)),
    (r"RTX 3090", (0.936, 71.0, 35.6, 35.6, 0, 0)),
    (r"RTX 3080", (0.76, 59.5, 29.8, 29.8, 0, 0)),
    (r"RTX 2080 Ti", (0.616, 53.8, 0, 13.4, 0, 0)),
)
_AMD: tuple[tuple[str, tuple[float, ...]], ...] = (
    (r"MI355X", (8.0, 2516.6, 0, 157.3, 78.6, 5033.2)),
    (r"MI350X", (8.0, 2306.9, 0, 144.2, 72.1, 4613.7)),
    (r"MI325X", (6.0, 1307.4, 653.7, 163.4, 163.4, 2614.9)),
    (r"MI300X", (5.3, 1307.4, 653.7, 163.4, 163.4, 2614.9)),
    (r"MI300A", (5.3, 980.6, 490.3, 122.6, 122.6, 1961.2)),
    (r"MI250X", (3.277, 383.0, 0, 95.7, 95.7, 0)),
    (r"MI250", (3.277, 362.1, 0, 90.5, 90.5, 0)),
    (r"MI210", (1.638, 181.0, 0, 45.3, 45.3, 0)),
    (r"MI100", (1.229, 184.6, 0, 46.1, 11.5, 0)),
)
_KNOWN = tuple(
    (re.compile(pattern), _peaks(maker, figures[0], figures[1:]))
    for maker, table in (("NVIDIA", _NVIDIA), ("AMD", _AMD))
    for pattern, figures in table
)


def peaks_of(device_name: str) -> Peaks | None:
    """Return the data sheet's peaks of a device by its name; None if unknown."""
    return next((peaks for pattern, peaks in _KNOWN if pattern.search(device_name)), None)


def peak_flops_per_second(device_name: str) -> float | None:
    """Return a device's peak of dense 16-bit products; None if unknown."""
    peaks = peaks_of(device_name)
    return None if peaks is None else peaks.flops_per_second[FLOAT16]


def best_peaks(device_name: str) -> Peaks | None:
    """Return a device's measured peaks, else those of its data sheet; None if unknown."""
    stated = peaks_of(device_name)
    for folder in cache_places():
        measured = _read(folder / _FILE).get(device_name)
        measured_peaks = _measured_peaks(measured) if isinstance(measured, dict) else None
        if measured_peaks is not None:
            others = stated.flops_per_second if stated is not None else {}
            return Peaks(
                {**others, **measured_peaks.flops_per_second},
                measured_peaks.bytes_per_second,
                measured_peaks.source,
            )
    return stated


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
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _measured_peaks(entry: dict[str, Any]) -> Peaks | None:
    flops, memory = entry.get("flops_per_second"), entry.get("bytes_per_second")
    if not isinstance(flops, dict) or not _is_rate(memory):
        return None
    rates = {str(kind): float(rate) for kind, rate in flops.items() if _is_rate(rate)}
    when = str(entry.get("when", ""))
    return Peaks(rates, memory, f"measured by stepscope device-peaks, {when}".rstrip(", "))


def _is_rate(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
