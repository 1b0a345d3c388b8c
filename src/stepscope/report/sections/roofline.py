"""The roofline: how far operators are from the device's limits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.device.roofline import model_of_trace, peaks_of_trace, roofline
from stepscope.analysis.work.work import WorkKind, device_work
from stepscope.report.base.payload import Payload, add_table
from stepscope.trace.model import Float64, Trace


def add_roofline(trace: Trace, payload: Payload) -> None:
    """Add ``roofline``, a row per operator, type and shapes, if any operator has shapes."""
    work = device_work(trace)
    rows = roofline(trace, work) if len(work) else None
    if rows is None or not len(rows):
        return
    peaks = peaks_of_trace(trace, work)
    has_roof = rows.roof_ns > 0
    compute_ns = int(work.duration_ns[work.kind == WorkKind.COMPUTE].sum())
    about = {
        "model": model_of_trace(trace, work),
        "source": peaks.source if peaks else "",
        "bytes_per_second": peaks.bytes_per_second if peaks else 0,
        # Types may share a roof: that of float16 is bfloat16's, too.
        "roofs": {kind: peaks.flops_in(kind) for kind in dict.fromkeys(rows.dtype)}
        if peaks
        else {},
        "told_ns": int(rows.device_ns[has_roof].sum()),
        "compute_ns": compute_ns,
        "saved_ns": float(rows.saved_ns.sum()),
    }
    payload.add_value("roofline.about", about)
    add_table(
        payload,
        "roofline",
        {
            "operator": rows.operator,
            "shapes": rows.shapes,
            "dtype": rows.dtype,
            "calls": rows.calls,
            "device_ns": rows.device_ns,
            "flops": rows.flops,
            "bytes": _positive_or_nan(rows.bytes),
            "flops_per_second": rows.flops_per_second,
            "bytes_per_second": _positive_or_nan(rows.bytes_per_second),
            "intensity": _positive_or_nan(rows.intensity),
            "limit": rows.limit,
            "share": np.where(has_roof, rows.share, np.nan),
            "reachable_ns": np.where(has_roof, rows.reachable_ns, np.nan),
            "saved_ns": np.where(has_roof, rows.saved_ns, np.nan),
        },
    )


def _positive_or_nan(values: Float64 | NDArray[np.int64]) -> Float64:
    return np.where(values > 0, values, np.nan)
