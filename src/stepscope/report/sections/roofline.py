"""The roofline: how far operators are from the device's limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.analysis.device.roofline import model_of_trace, peaks_of_trace, roofline
from stepscope.analysis.work.work import WorkKind, device_work
from stepscope.report.base.payload import Payload, add_headings, add_table
from stepscope.trace.model import Trace


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
    columns: dict[str, Any] = {}
    for measure, values in rows.on_pages().items():
        columns[measure.name] = values
        if isinstance(values, np.ndarray):
            columns[measure.name] = np.where(values > 0, values, np.nan)
    columns["saved_ns"] = np.where(has_roof, rows.saved_ns, np.nan)
    add_table(payload, "roofline", columns)
    roof = () if peaks else ("limit", "share", "reachable_ns", "saved_ns")
    add_headings(
        payload, "roofline", [measure for measure in rows.on_pages() if measure.name not in roof]
    )
