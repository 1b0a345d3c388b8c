"""What else the two sides differ by, besides time: memory, and events in a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stepscope.analysis.compare.model import Quantity
from stepscope.analysis.compare.side import Side
from stepscope.analysis.memory.blocks import blocks_of_device, totals_of
from stepscope.analysis.memory.usage import devices, with_memory
from stepscope.trace.model import SliceKind, Trace

_SYNCHRONIZE = ("Synchronize", "synchronize")


def memory_changes(before: Mapping[str, float], after: Mapping[str, float]) -> list[Quantity]:
    return [
        Quantity(f"peak memory, {device}", before[device], after[device], "bytes")
        for device in before
        if device in after
    ]


def peaks_of(traces: Sequence[Trace]) -> dict[str, float]:
    """Return the peak of each device's memory, the median over runs."""
    peaks: dict[str, list[float]] = {}
    for trace in traces:
        filled = with_memory(trace)
        for device in devices(filled) if len(filled.memory) else ():
            blocks, _ = blocks_of_device(filled, device)
            totals = totals_of(filled, device, blocks)
            peaks.setdefault(device, []).append(float(totals.bytes[totals.peak_row]))
    return {device: float(np.median(values)) for device, values in peaks.items()}


def count_changes(sides: tuple[Side, Side]) -> list[Quantity]:
    counted = [_events(side) for side in sides]
    return [
        Quantity(what, counted[0][what], counted[1][what])
        for what in counted[0]
        if counted[0][what] or counted[1][what]
    ]


def _events(side: Side) -> dict[str, float]:
    sums = dict.fromkeys(("operators", "kernels", "copies", "synchronisations"), 0)
    steps = 0
    for run in side.runs:
        slices, chosen = run.trace.slices, run.windows
        steps += len(chosen)
        at = np.searchsorted(chosen.start_ns, slices.start_ns, side="right") - 1
        inside = (at >= 0) & (slices.start_ns < chosen.end_ns[at])
        kind = slices.kind[inside]
        sums["operators"] += int((kind == SliceKind.OPERATOR).sum())
        sums["kernels"] += int((kind == SliceKind.KERNEL).sum())
        sums["copies"] += int((kind == SliceKind.MEMCPY).sum())
        calls = slices.name[inside & (slices.kind == SliceKind.RUNTIME)]
        ids, count = np.unique(calls, return_counts=True)
        for name, number in zip(ids.tolist(), count.tolist(), strict=True):
            if any(word in run.trace.strings[name] for word in _SYNCHRONIZE):
                sums["synchronisations"] += number
    return {what: count / max(steps, 1) for what, count in sums.items()}
