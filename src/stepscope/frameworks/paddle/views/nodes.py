"""A Trace as Paddle sees one: threads with host nodes, runtime calls, memory and device work."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.host.event_types import event_types
from stepscope.frameworks.paddle.memory import MemoryBefore, TracerMemEventType
from stepscope.trace.event_types import TracerEventType
from stepscope.trace.model import DEVICE_KINDS, NO_CORRELATION, NO_PARENT, NO_SLICE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.trace.model import Int64, Trace, UInt8

    Bools = NDArray[np.bool_]

NO_ROW = -1
_ALLOCATE, _FREE, _RESERVED_ALLOCATE, _RESERVED_FREE = TracerMemEventType
_FIRST_MADE_UP_ID = 1 << 32  # for tracks that are not called by a number


@dataclass(frozen=True)
class PaddleNodes:
    """The slices of a trace by the part they play, and who belongs to whom."""

    trace: Trace

    @cached_property
    def types(self) -> UInt8:
        """Return the TracerEventType of every slice."""
        return event_types(self.trace)

    @cached_property
    def is_device(self) -> Bools:
        """Tell which slices ran on a device."""
        found: Bools = np.isin(self.trace.slices.kind, [int(kind) for kind in DEVICE_KINDS])
        return found

    @cached_property
    def is_runtime(self) -> Bools:
        """Tell which slices are calls of the device's runtime."""
        found: Bools = (self.types == TracerEventType.CudaRuntime) & ~self.is_device
        return found

    @cached_property
    def is_host(self) -> Bools:
        """Tell which slices are nodes of a thread's tree."""
        return ~self.is_device & ~self.is_runtime

    @cached_property
    def owner(self) -> Int64:
        """Return the innermost host slice around each slice, itself left out; NO_ROW without."""
        slices = self.trace.slices
        owner = slices.parent.astype(np.int64)
        # Few slices lie in a runtime call: climb with all that do, a level a turn.
        while True:
            inside = np.flatnonzero((owner != NO_PARENT) & ~self.is_host[owner])
            if not len(inside):
                return owner
            owner[inside] = slices.parent[owner[inside]]

    @cached_property
    def launch(self) -> Int64:
        """Return the runtime call that launched each device slice; NO_ROW for all others."""
        slices = self.trace.slices
        launch = np.full(len(slices), NO_ROW, np.int64)
        calls = np.flatnonzero(self.is_runtime & (slices.correlation != NO_CORRELATION))
        work = np.flatnonzero(self.is_device & (slices.correlation != NO_CORRELATION))
        if not len(calls) or not len(work):
            return launch
        order = calls[np.argsort(slices.correlation[calls], kind="stable")]
        ids = slices.correlation[order]
        at = np.minimum(np.searchsorted(ids, slices.correlation[work]), len(ids) - 1)
        matches = ids[at] == slices.correlation[work]
        launch[work[matches]] = order[at[matches]]
        return launch

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Return process and thread of every track as numbers, made up where it has words."""
        places = []
        for i, track in enumerate(self.trace.tracks):
            pid, tid = _number(track.pid), _number(track.tid)
            made_up = _FIRST_MADE_UP_ID + i
            places.append((made_up if pid is None else pid, made_up if tid is None else tid))
        return tuple(places)

    @cached_property
    def device_tracks(self) -> Bools:
        """Tell which tracks are streams of a device."""
        found = np.zeros(len(self.trace.tracks), bool)
        found[self.trace.slices.track[self.is_device]] = True
        return found

    @cached_property
    def memory_owner(self) -> Int64:
        """Return the innermost host slice of every memory event; NO_ROW without."""
        rows = self.trace.memory.slice.astype(np.int64)
        tied = np.flatnonzero(rows != NO_SLICE)
        inside = tied[~self.is_host[rows[tied]]]
        rows[inside] = self.owner[rows[inside]]
        return rows

    @cached_property
    def memory_figures(self) -> dict[str, Any]:
        """Return what Paddle tells of memory events beyond our columns: type, increase, peaks."""
        memory = self.trace.memory
        increase = memory.size.copy()
        kind = np.where(memory.size < 0, _FREE, _ALLOCATE).astype(np.uint8)
        peaks = [np.zeros(len(memory), np.int64), np.zeros(len(memory), np.int64)]
        said = self.trace.info.user.get("memoryBefore", {})
        for device in np.unique(memory.device):
            rows = np.flatnonzero(memory.device == device)
            before = _before(said, self.trace.strings[int(device)])
            change = np.diff(memory.reserved[rows], prepend=before.reserved)
            of_none = memory.size[rows] == 0
            increase[rows[of_none]] = change[of_none]
            kind[rows[of_none]] = np.where(change[of_none] < 0, _RESERVED_FREE, _RESERVED_ALLOCATE)
            for peak, figures, known in (
                (peaks[0], memory.allocated, before.peak_allocated),
                (peaks[1], memory.reserved, before.peak_reserved),
            ):
                peak[rows] = np.maximum(np.maximum.accumulate(figures[rows]), known)
        return {
            "type": kind,
            "increase": increase,
            "peak_allocated": peaks[0],
            "peak_reserved": peaks[1],
        }

    def integers(self, key: str) -> Int64:
        """Return an integer argument of every slice, 0 where it has none."""
        slices = self.trace.slices
        return slices.args.dense(key, len(slices), 0)


def _number(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdecimal() and int(word) < 1 << 63 else None


def _before(said: Any, device: str) -> MemoryBefore:
    figures = said.get(device) if isinstance(said, dict) else None
    if not isinstance(figures, dict):
        return MemoryBefore()
    known = {key: figures.get(key) for key in MemoryBefore._fields}
    return MemoryBefore(**{key: value for key, value in known.items() if type(value) is int})


def parsed(fragment: str) -> dict[str, Any]:
    """Return the pairs of a JSON fragment; none when it makes no sense."""
    try:
        pairs: dict[str, Any] = json.loads("{" + fragment + "}", strict=False)
    except ValueError:
        return {}
    return pairs


def input_lists(pairs: Mapping[str, Any]) -> tuple[dict[str, list[Any]], dict[str, list[str]]]:
    """Return shapes and dtypes by the inputs' names, as Paddle has them.

    Inputs that nobody named are called by their position. What is no tensor, or a list of them,
    has no shape of its own.
    """
    shapes, dtypes = pairs.get("Input Dims"), pairs.get("Input type")
    names = pairs.get("Input names")
    by_shape = _by_name(shapes, names)
    by_dtype = _by_name(dtypes, pairs.get("Input type names", names))
    return (
        {name: [s for s in each if _is_shape(s)] for name, each in by_shape.items()},
        {name: [str(d) for d in each] for name, each in by_dtype.items()},
    )


def _by_name(items: Any, names: Any) -> dict[str, list[Any]]:
    if not isinstance(items, list):
        return {}
    if not isinstance(names, list) or len(names) != len(items):
        names = [str(i) for i in range(len(items))]
    found: dict[str, list[Any]] = {}
    for name, item in zip(names, items, strict=True):
        found.setdefault(str(name), []).append(item)
    return found


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int for size in value)
