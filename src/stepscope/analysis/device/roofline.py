"""How far operators are from what the device can do: the roofline.

An operator needs at least the time of its operations at the device's peak for their type, and at
least that of its bytes at the memory's peak; the longer one is its roof. Operations come from
shapes (see flops), bytes are those of the inputs and of the result, each moved once. What a kernel
reads from a cache, or reads twice, is not known. Nor is what an operator reads that takes a few
rows of a table: where its bytes would have been faster than the memory, they do not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.device.math import device_model
from stepscope.analysis.device.peaks import FLOAT8, FLOAT16, FLOAT32, FLOAT64, TF32, peaks_of
from stepscope.analysis.device.tensor_cores import TensorCores, uses_tensor_cores
from stepscope.analysis.device.work import WorkKind, device_work
from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.steps.breakdown import step_breakdown
from stepscope.analysis.table import Table
from stepscope.trace.fragments import pairs_of
from stepscope.trace.model import NO_PARENT, NO_SLICE, SliceKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.device.peaks import Peaks
    from stepscope.analysis.device.work import DeviceWork
    from stepscope.trace.model import Int64, Trace

    Float64 = NDArray[np.float64]

REACHABLE = 0.8
"""Of the roof: what good kernels reach."""

_TYPES = {
    **dict.fromkeys(("double", "float64"), (FLOAT64, 8)),
    **dict.fromkeys(("float", "float32"), (FLOAT32, 4)),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "float16", "bfloat16"), (FLOAT16, 2)),
    **dict.fromkeys(("c10::Float8_e4m3fn", "c10::Float8_e5m2", "float8_e4m3fn"), (FLOAT8, 1)),
    **dict.fromkeys(("long", "long int", "int64"), ("int64", 8)),
    **dict.fromkeys(("int", "int32"), ("int32", 4)),
    **dict.fromkeys(("short", "int16"), ("int16", 2)),
    **dict.fromkeys(("bool", "unsigned char", "signed char", "char", "uint8"), ("int8", 1)),
}
_REDUCTIONS = ("::sum", "::mean", "::max", "::min", "::argmax", "::norm", "::nll_loss")
_PRODUCTS = {
    "aten::mm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::bmm": (0, 1),
    "aten::baddbmm": (1, 2),
}


@dataclass(frozen=True, slots=True)
class Roofline(Table):
    """One row per operator and type of its inputs, those with the most device time first."""

    operator: tuple[str, ...]
    dtype: tuple[str, ...]  # in which the device computes: tf32 is float32 on tensor cores
    calls: Int64
    device_ns: Int64
    flops: Int64
    bytes: Int64  # at least: inputs and result, each once; 0: not known
    compute_ns: Float64  # at the peak for that type; 0 where it is not known
    memory_ns: Float64  # at the memory's peak

    @property
    def roof_ns(self) -> Float64:
        """Return the shortest time in which the device could have done it; 0: not known."""
        return np.maximum(self.compute_ns, self.memory_ns)

    @property
    def share(self) -> Float64:
        """Return how near the operator is to its roof, 0 to 1."""
        return np.minimum(self.roof_ns / np.maximum(self.device_ns, 1), 1.0)

    @property
    def saved_ns(self) -> Float64:
        """Return what would be saved at 80 % of the roof."""
        return np.maximum(self.device_ns - self.roof_ns / REACHABLE, 0.0) * (self.roof_ns > 0)

    @property
    def intensity(self) -> Float64:
        """Return operations for each byte; 0 where the bytes are not known."""
        return np.where(self.bytes > 0, self.flops / np.maximum(self.bytes, 1), 0.0)


def roofline(trace: Trace, work: DeviceWork | None = None) -> Roofline:
    """Return what operators achieved, and what the device could have done."""
    work = work or device_work(trace)
    flops = flops_of(trace)
    operator = _counting_operators(trace, work, flops)
    known = _Known(trace)
    groups: dict[tuple[str, str], list[float]] = {}
    seen: set[tuple[tuple[str, str], int]] = set()
    for piece, row in enumerate(operator.tolist()):
        if row == NO_SLICE or (told := known.of(row)) is None:
            continue
        kernel = trace.strings[int(trace.slices.name[work.rows[piece]])]
        key = (trace.name_of(row), _computed_in(told.kind, kernel))
        sums = groups.setdefault(key, [0.0] * 4)
        sums[1] += float(work.duration_ns[piece])
        if (key, row) not in seen:
            seen.add((key, row))
            sums[0] += 1
            sums[2] += float(flops[row])
            sums[3] += told.bytes_of(trace.name_of(row), int(flops[row]))
    peaks = _peaks_of_trace(trace, work)
    return _table(groups, peaks)


def flops_utilisation(trace: Trace, work: DeviceWork | None = None) -> float | None:
    """Return the operations of the steps over what the devices' 16-bit peak would have allowed.

    None without steps, shapes or a known device.
    """
    work = work or device_work(trace)
    peaks, steps = _peaks_of_trace(trace, work), step_breakdown(trace)
    whole = steps.is_whole
    if peaks is None or not whole.any():
        return None
    flops, starts = flops_of(trace), trace.slices.start_ns
    inside = np.zeros(len(flops), np.bool_)
    for start, length in zip(steps.start_ns[whole], steps.duration_ns[whole], strict=True):
        inside |= (starts >= start) & (starts < start + length)
    done = float(flops[inside].sum())
    seconds = float(steps.duration_ns[whole].sum()) * 1e-9 * len(work.devices)
    return done / seconds / peaks.flops_per_second[FLOAT16] if done and seconds else None


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The tensors of one call: shapes and types."""

    kind: str  # of the first tensor
    shapes: tuple[tuple[tuple[int, ...], int], ...]  # sizes, and bytes of an element
    dims: Sequence[Any]

    def bytes_of(self, name: str, flops: int) -> float:
        read = sum(math.prod(sizes) * each for sizes, each in self.shapes)
        return read + self._result(name, flops) * self.shapes[0][1]

    def _result(self, name: str, flops: int) -> float:
        """Return how many elements the result has, as far as shapes tell."""
        if name in _PRODUCTS:
            left, right = (self.dims[i] for i in _PRODUCTS[name])
            return float(math.prod(left[:-1]) * right[-1])
        if "conv" in name and flops and len(self.shapes) > 1:
            return flops / (2 * max(math.prod(self.shapes[1][0][1:]), 1))
        if name.endswith(_REDUCTIONS) or name.endswith("copy_"):
            return 0.0
        return float(max(math.prod(sizes) for sizes, _ in self.shapes))


class _Known:
    """Reads the shapes of operators, once for each text."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._found: dict[int, _Inputs | None] = {}

    def of(self, row: int) -> _Inputs | None:
        rest = self._trace.slices.args.rest
        text = int(rest[row]) if len(rest) else 0
        if text not in self._found:
            self._found[text] = _read(self._trace.strings[text]) if text else None
        return self._found[text]


def _read(fragment: str) -> _Inputs | None:
    pairs = pairs_of(fragment)
    dims, types = pairs.get("Input Dims"), pairs.get("Input type")
    if not isinstance(dims, list) or not isinstance(types, list):
        return None
    shapes = tuple(_tensors(dims, types))
    if not shapes:
        return None
    kind = next(_TYPES[word][0] for word in types if word in _TYPES)
    return _Inputs(kind, shapes, dims)


def _tensors(dims: list[Any], types: list[Any]) -> Iterator[tuple[tuple[int, ...], int]]:
    for sizes, kind in zip(dims, types, strict=False):
        if kind in _TYPES and isinstance(sizes, list) and all(type(size) is int for size in sizes):
            yield tuple(sizes), _TYPES[kind][1]


def _counting_operators(trace: Trace, work: DeviceWork, flops: Int64) -> Int64:
    """Return the operator of each piece of work: the one whose operations are counted, if any."""
    slices = trace.slices
    found = work.operator[work.rows].copy()
    found[~np.isin(work.kind, (WorkKind.COMPUTE, WorkKind.FILL))] = NO_SLICE
    above = found.copy()
    while len(climbing := np.flatnonzero(above != NO_SLICE)):
        counts = flops[above[climbing]] > 0
        found[climbing[counts]] = above[climbing[counts]]
        parent = slices.parent[above[climbing]].astype(np.int64)
        above[climbing] = np.where(counts | (parent == NO_PARENT), NO_SLICE, parent)
    is_operator = slices.kind.take(found, mode="clip") == SliceKind.OPERATOR
    return np.where(is_operator, found, NO_SLICE)


def _computed_in(kind: str, kernel: str) -> str:
    on_tensor_cores = uses_tensor_cores(kernel) is TensorCores.YES
    return TF32 if kind == FLOAT32 and on_tensor_cores else kind


def _peaks_of_trace(trace: Trace, work: DeviceWork) -> Peaks | None:
    """Return the peaks of the trace's devices, if they are known."""
    models = {device_model(trace, device) for device in work.devices}
    return peaks_of(models.pop()) if len(models) == 1 else None


def _table(groups: dict[tuple[str, str], list[float]], peaks: Peaks | None) -> Roofline:
    order = sorted(groups, key=lambda key: -groups[key][1])
    numbers = np.array([groups[key] for key in order]).reshape(-1, 4).T
    if peaks is not None:  # nobody is faster than the memory: it does not read all of its inputs
        numbers[3, numbers[3] / peaks.bytes_per_second * 1e9 > numbers[1]] = 0
    most = [peaks.flops_per_second.get(kind, 0.0) if peaks else 0.0 for _, kind in order]
    memory = peaks.bytes_per_second if peaks else 0.0
    return Roofline(
        operator=tuple(name for name, _ in order),
        dtype=tuple(kind for _, kind in order),
        calls=numbers[0].astype(np.int64),
        device_ns=numbers[1].astype(np.int64),
        flops=numbers[2].astype(np.int64),
        bytes=numbers[3].astype(np.int64),
        compute_ns=np.array(
            [
                flops / peak * 1e9 if peak else 0.0
                for flops, peak in zip(numbers[2], most, strict=True)
            ]
        ),
        memory_ns=numbers[3] / memory * 1e9 if memory else np.zeros(len(order)),
    )
