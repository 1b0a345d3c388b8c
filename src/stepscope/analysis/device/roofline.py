"""How far operators are from what the device can do: the roofline.

An operator needs at least the time of its operations at the device's peak for their type, and at
least that of its bytes at the memory's peak; the longer one is its roof. Operations come from
shapes (see flops), so do bytes (see traffic). An operator whose bytes would have been moved much
faster than the memory can does not read all of them: they are not known then. Up to that, it found
them in a cache, and is at its roof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope import units
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import around, distinct, distinct_pairs, summed
from stepscope.analysis.base.table import Table
from stepscope.analysis.base.tree import has_text
from stepscope.analysis.device.math import TensorCores, device_model, uses_tensor_cores
from stepscope.analysis.device.peaks import FLOAT16, FLOAT32, TF32, Peaks, best_peaks, peaks_of
from stepscope.analysis.device.traffic import CallInputs, bytes_of, inputs_of
from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.steps.steps import steady_steps, step_table
from stepscope.analysis.work.work import DeviceWork, WorkKind, device_work
from stepscope.trace.keys import BYTES
from stepscope.trace.measures import Shown, measure, states
from stepscope.trace.model import NO_SLICE, Bool, Float64, Int64, SliceKind, Trace
from stepscope.units import BYTES_RATE, COUNT, FLOPS, FLOPS_RATE, RATIO, SHARE, TEXT, TIME

REACHABLE = 0.8  # good kernels reach this share of the roof
# Caches are about this many times as fast as memory; what is faster yet reads less.
FROM_A_CACHE = 3.0
SHORTEST_NS = 2_000  # no kernel takes less: it has to start, to read and to write

_ON_DEVICE = "DtoD"  # copies within a device; others are limited by the connection


@dataclass(frozen=True, slots=True)
class Roofline(Table):
    """One row per operator, type and shapes of its inputs, those with the most device time first.

    Copies within a device that no operator with known inputs asked for are named as such.
    """

    operator: tuple[str, ...] = measure("Operator", TEXT)
    dtype: tuple[str, ...] = measure("Type", TEXT, "tf32 is float32 on tensor cores")
    shapes: tuple[str, ...] = measure("Shapes", TEXT)  # of the inputs: "8192x512, 512x64"
    calls: Int64 = measure("Calls", COUNT)
    device_ns: Int64 = measure("Device time", TIME)
    flops: Int64 = measure("FLOPs", FLOPS, "By the input shapes", shown=Shown.PAGES)
    bytes: Int64 = measure("Bytes", units.BYTES, "At least: each moved once", shown=Shown.PAGES)
    compute_ns: Float64 = measure("At the type's peak", TIME, shown=Shown.DATA)  # 0 if unknown
    memory_ns: Float64 = measure("At the memory's peak", TIME, shown=Shown.DATA)

    @property
    def roof_ns(self) -> Float64:
        """Return the shortest time in which the device could have done it; 0: not known."""
        return np.maximum(self.compute_ns, self.memory_ns)

    @property
    @states("Limit", TEXT, "Which of the two peaks makes the roof", after="device_ns")
    def limit(self) -> tuple[str, ...]:
        """Return what the roof of each is: ``compute``, ``memory``, "" where it is not known."""
        by = np.where(self.compute_ns >= self.memory_ns, "compute", "memory")
        return tuple(np.where(self.roof_ns > 0, by, "").tolist())

    @property
    @states("Of roof", SHARE, "The shortest possible time over the device time", after="device_ns")
    def share(self) -> Float64:
        return np.minimum(self.roof_ns / np.maximum(self.device_ns, 1), 1.0)

    @property
    @states("At 80 % of roof", TIME, "What good kernels reach", after="device_ns")
    def reachable_ns(self) -> Float64:
        """Return the time at 80 % of the roof, at most the present time; 0 if unknown."""
        least_ns = np.maximum(self.roof_ns / REACHABLE, SHORTEST_NS * self.calls)
        return np.minimum(least_ns, self.device_ns) * (self.roof_ns > 0)

    @property
    @states("Would save", TIME, after="device_ns")
    def saved_ns(self) -> Float64:
        return (self.device_ns - self.reachable_ns) * (self.roof_ns > 0)

    @property
    @states("FLOP/s", FLOPS_RATE, after="device_ns")
    def flops_per_second(self) -> Float64:
        return self.flops * 1e9 / np.maximum(self.device_ns, 1)

    @property
    @states("Bytes/s", BYTES_RATE, after="device_ns")
    def bytes_per_second(self) -> Float64:
        return self.bytes * 1e9 / np.maximum(self.device_ns, 1)

    @property
    @states("FLOP/B", RATIO, "Operations for each byte; 0 if unknown", after="device_ns")
    def intensity(self) -> Float64:
        return np.where(self.bytes > 0, self.flops / np.maximum(self.bytes, 1), 0.0)


@shared
def roofline(trace: Trace, work: DeviceWork | None = None) -> Roofline:
    """Return what operators achieved, and what the device could have done."""
    work = work or device_work(trace)
    flops = flops_of(trace)
    operator = _counting_operators(trace, work, flops)
    groups = _Groups(peaks_of_trace(trace, work))
    _add_operators(groups, trace, work, operator, flops)
    _add_copies(groups, trace, work, operator)
    return groups.table()


def peaks_of_trace(trace: Trace, work: DeviceWork | None = None) -> Peaks | None:
    """Return the peaks of the trace's devices: measured, else from the data sheet."""
    name = model_of_trace(trace, work)
    return best_peaks(name) if name else None


def model_of_trace(trace: Trace, work: DeviceWork | None = None) -> str:
    """Return the model of the trace's devices; "" if unknown or mixed."""
    work = work or device_work(trace)
    models = {device_model(trace, device) for device in work.devices}
    return models.pop() if len(models) == 1 else ""


def flops_utilisation(trace: Trace, work: DeviceWork | None = None) -> float | None:
    """Return the operations of the steady steps over what the devices' 16-bit peak would allow.

    The peak is the data sheet's, as is usual, where there is one. None without steps, shapes or a
    known device.
    """
    work = work or device_work(trace)
    name = model_of_trace(trace, work)
    peaks = (peaks_of(name) or best_peaks(name)) if name else None
    steps, steady = step_table(trace), steady_steps(trace)
    if peaks is None or not peaks.flops_in(FLOAT16) or not steady.any():
        return None
    flops, starts = flops_of(trace), trace.slices.start_ns
    done = np.append(0, np.cumsum(flops))  # slices are in the order of their starts
    first, last = (np.searchsorted(starts, at[steady]) for at in (steps.start_ns, steps.end_ns))
    seconds = float(steps.duration_ns[steady].sum()) * 1e-9 * len(work.devices)
    count = float((done[last] - done[first]).sum())
    return count / seconds / peaks.flops_in(FLOAT16) if count and seconds else None


class _Groups:
    """Sums by operator, type and shapes."""

    def __init__(self, peaks: Peaks | None) -> None:
        self._peaks = peaks
        self._sums: dict[tuple[str, str, str], list[int]] = {}

    def add(
        self, key: tuple[str, str, str], calls: int, device_ns: int, flops: int, moved: int
    ) -> None:
        sums = self._sums.setdefault(key, [0] * 4)
        for at, more in enumerate((calls, device_ns, flops, moved)):
            sums[at] += more

    def table(self) -> Roofline:
        order = sorted(self._sums, key=lambda key: -self._sums[key][1])
        columns = np.array([self._sums[key] for key in order], np.int64).reshape(-1, 4).T
        calls, device_ns, flops, moved = columns
        peaks, nothing = self._peaks, np.zeros(len(order))
        compute_ns = memory_ns = nothing
        if peaks is not None:
            memory_ns = moved / peaks.bytes_per_second * 1e9
            moved = np.where(memory_ns > FROM_A_CACHE * device_ns, 0, moved)
            memory_ns = np.where(moved, memory_ns, 0.0)
            most = np.array([peaks.flops_in(kind) for _, kind, _ in order]).reshape(-1)
            compute_ns = np.where(most > 0, flops * 1e9 / np.maximum(most, 1), 0.0)
        names, kinds, shapes = zip(*order, strict=True) if order else ((), (), ())
        return Roofline(names, kinds, shapes, calls, device_ns, flops, moved, compute_ns, memory_ns)


def _add_operators(
    groups: _Groups, trace: Trace, work: DeviceWork, operator: Int64, flops: Int64
) -> None:
    """Sum by name, inputs and use of tensor cores, so that each text is parsed once."""
    slices, strings = trace.slices, trace.strings
    if not len(slices.args.rest):
        return
    pieces = np.flatnonzero(operator != NO_SLICE)
    pieces = pieces[slices.args.rest[operator[pieces]] != 0]
    rows, kernels = operator[pieces], slices.name[work.rows[pieces]]
    tensor = has_text(kernels, strings, _on_tensor_cores)
    tensor = np.isin(rows, rows[tensor])  # a call uses all of them
    (names, texts), pair = distinct_pairs(slices.name[rows], slices.args.rest[rows])
    group = 2 * pair + tensor
    device_ns = summed(group, work.duration_ns[pieces], 2 * len(names))
    (called, call), _ = distinct_pairs(group, rows)  # a call with several kernels counts once
    calls = np.bincount(called, minlength=len(device_ns))
    done = summed(called, flops[call], len(device_ns))
    for number in range(len(names)):
        inputs = inputs_of(strings[int(texts[number])])
        if inputs is None:
            continue
        name = strings[int(names[number])]
        for code in (2 * number, 2 * number + 1):
            if not calls[code]:
                continue
            a_call = int(done[code]) // int(calls[code])
            moved = bytes_of(name, inputs, a_call) * int(calls[code])
            kind = _computed_in(inputs, on_tensor_cores=bool(code % 2))
            groups.add(
                (name, kind, inputs.shapes_text),
                int(calls[code]),
                int(device_ns[code]),
                int(done[code]),
                moved,
            )


def _add_copies(groups: _Groups, trace: Trace, work: DeviceWork, operator: Int64) -> None:
    """Add copies within a device that belong to no operator with inputs: one read, one write."""
    slices = trace.slices
    size = slices.args.dense(BYTES, len(slices), 0)[work.rows]
    alone = _is_copy_on_device(trace, work) & (size > 0)
    if len(slices.args.rest):
        alone &= (operator == NO_SLICE) | (slices.args.rest[operator] == 0)
    names, name = distinct(slices.name[work.rows[alone]])
    for at, name_id in enumerate(names.tolist()):
        mine = np.flatnonzero(alone)[name == at]
        sums = int(work.duration_ns[mine].sum()), 0, 2 * int(size[mine].sum())
        groups.add((trace.strings[name_id], "", ""), len(mine), *sums)


def _is_copy_on_device(trace: Trace, work: DeviceWork) -> Bool:
    names = trace.slices.name[work.rows]
    within: Bool = has_text(names, trace.strings, lambda name: _ON_DEVICE in name)
    within &= work.kind == WorkKind.COPY
    return within


def _counting_operators(trace: Trace, work: DeviceWork, flops: Int64) -> Int64:
    """Return for each piece of work the operator whose operations are counted, if any."""
    slices = trace.slices
    operator = work.operator[work.rows].copy()
    counts = np.isin(work.kind, (WorkKind.COMPUTE, WorkKind.FILL))
    operator[~(counts | _is_copy_on_device(trace, work))] = NO_SLICE
    counted = around(slices.parent, operator, flops > 0, itself=True)
    operator = np.where(counted != NO_SLICE, counted, operator)
    is_operator = slices.kind.take(operator, mode="clip") == SliceKind.OPERATOR
    return np.where(is_operator, operator, NO_SLICE)


def _on_tensor_cores(kernel: str) -> bool:
    return uses_tensor_cores(kernel) is TensorCores.YES


def _computed_in(inputs: CallInputs, *, on_tensor_cores: bool) -> str:
    return TF32 if inputs.kind == FLOAT32 and on_tensor_cores else inputs.kind
