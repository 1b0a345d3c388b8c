"""What ran on devices, and what kind of work it was.

Work is every kernel, copy and fill. Ranges on a device, such as ``gpu_user_annotation``, contain
work but are none; neither are the waits of streams for each other.

Communication is recognised by the kernel's name: NCCL's and RCCL's kernels, and those whose
name has a collective in it as a word (``multimem_all_reduce_kernel``, NVSHMEM's, DeepEP's, MORI's,
Transformer Engine's user buffers, ``cross_device_reduce_1stage``). Kernels with other names count
as compute. A kernel with the argument ``Collective name`` communicates whatever it is called.

MTIA calls all it does kernels: there ``dma_request`` is a copy, ``event_record`` and ``event_wait``
are no work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache

import numpy as np

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.labels import Labels, shown_name
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import distinct, distinct_pairs, summed
from stepscope.analysis.base.tree import call_tree, has_text
from stepscope.analysis.calls.launches import (
    capturing_operators,
    launches,
    launching_calls,
)
from stepscope.analysis.work.kernel_names import demangled
from stepscope.trace.keys import COLLECTIVE
from stepscope.trace.kinds import WORK_KINDS
from stepscope.trace.model import NO_SLICE, Bool, Int64, SliceKind, Trace, Track, UInt8
from stepscope.trace.names import NO_NUMBER, device_number, stream_number

_COMMUNICATION = re.compile(
    r"nccl|rccl|nvshmem|rocshmem|deep_?ep|::ep::(inter|intra)node|cross_device_reduce|sendrecv"
    r"|hccl|ucc_|mscclpp|multimem|quick_?reduce|(one|two)_?shot_?all_?reduce|userbuffers|moeA2A"
    r"|mori::|ep(dispatch|combine)(inter|intra)node|(?<![a-z])ishmem"
    r"|(?<![a-z])(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)(?![a-z])",
    re.IGNORECASE,
)
_IN_A_BLOCK = re.compile(r"(warp|block|cluster)_?all_?reduce", re.IGNORECASE)
_KNOWN_NAMES = 1 << 14  # the ranks of a job run the same kernels
_MTIA_CATEGORY = "mtia_ccp_events"
_MTIA_COPIES = frozenset({"dma_request"})
_MTIA_WAITS = frozenset({"event_record", "event_wait"})


class WorkKind(IntEnum):
    COMPUTE = 0
    COMMUNICATION = 1
    COPY = 2
    FILL = 3


@dataclass(frozen=True)
class DeviceWork:
    """The device work of a trace in order of its starts, one value of a column per piece."""

    trace: Trace
    rows: Int64  # of the trace's slices
    kind: UInt8  # WorkKind
    device: Int64  # index of ``devices``
    stream: Int64  # index of ``streams``
    devices: tuple[str, ...]  # as the trace numbers them
    streams: tuple[tuple[int, str], ...]  # the device and the stream's name, a row per track

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def start_ns(self) -> Int64:
        return self.trace.slices.start_ns[self.rows]

    @cached_property
    def duration_ns(self) -> Int64:
        return self.trace.slices.duration_ns[self.rows]

    @cached_property
    def end_ns(self) -> Int64:
        return self.start_ns + self.duration_ns

    @cached_property
    def call(self) -> Int64:
        """Return the row of the runtime call that launched each, NO_SLICE where it is not known."""
        return launching_calls(self.trace, self.rows)

    def launched(self, values: Int64) -> Int64:
        """Return for each slice the sum of ``values`` over the device work that it launched."""
        return summed(self.operator[self.rows], values[self.rows], len(self.trace.slices))

    @cached_property
    def is_kernel(self) -> Bool:
        return np.isin(self.kind, (WorkKind.COMPUTE, WorkKind.COMMUNICATION))

    @cached_property
    def operator(self) -> Int64:
        """Return the row of what launched each slice of device work, NO_SLICE for other slices.

        That is the innermost operator or range around the launching call; of a replayed CUDA graph,
        around the call that was captured.
        """
        operator = np.full(len(self.trace.slices), NO_SLICE, np.int64)
        tree = call_tree(self.trace)
        launched = launches(tree)
        if launched is not None:
            slice_of = np.arange(len(tree)) if tree.rows is None else tree.rows
            operator[slice_of[launched.work]] = slice_of[launched.host]
        captured, host = capturing_operators(tree)
        operator[captured] = host
        return operator

    def names(self, rows: Int64) -> Labels[str]:
        """Return the names of some slices of the trace, "" for NO_SLICE."""
        name = self.trace.slices.name
        ids = np.where(rows == NO_SLICE, 0, name[rows] if len(name) else 0)
        distinct_ids, codes = distinct(ids)
        texts = [shown_name(self.trace.strings[int(i)]) for i in distinct_ids]
        return Labels(codes.astype(np.uint32), texts)

    def operator_names(self, rows: Int64) -> Labels[str]:
        """Return the names of what launched some pieces of work, "" if unknown."""
        is_known = rows != NO_SLICE
        operator = np.full(len(rows), NO_SLICE, np.int64)
        operator[is_known] = self.operator[rows[is_known]]
        return self.names(operator)

    def busy(self, which: Bool) -> Intervals:
        """Return the time in which any of the pieces ``which`` ran."""
        return union(self.start_ns[which], self.end_ns[which])

    def window_ns(self) -> tuple[int, int]:
        """Return the recorded window, extended to all work."""
        info, slices = self.trace.info, self.trace.slices
        start_ns, end_ns = info.start_ns, info.end_ns
        if end_ns <= start_ns and len(slices):
            start_ns, end_ns = int(slices.start_ns[0]), int(slices.end_ns.max())
        if len(self):
            start_ns = min(start_ns, int(self.start_ns[0]))
            end_ns = max(end_ns, int(self.end_ns.max()))
        return start_ns, end_ns


@shared
def device_work(trace: Trace) -> DeviceWork:
    slices = trace.slices
    rows = np.flatnonzero(np.isin(slices.kind, WORK_KINDS))
    rows, kind = _classified(trace, rows)
    devices, device = _devices(trace, rows)
    pairs, stream = distinct_pairs(device, slices.track[rows])
    numbers = slices.args.dense("stream", len(slices), NO_NUMBER)[rows]
    number_of = dict(zip(stream.tolist(), numbers.tolist(), strict=True))
    streams = tuple(
        (int(of), _stream_name(trace.tracks[track], number_of[i]))
        for i, (of, track) in enumerate(zip(*pairs, strict=True))
    )
    return DeviceWork(trace, rows, kind, device, stream, devices, streams)


@lru_cache(_KNOWN_NAMES)
def is_communication(kernel_name: str) -> bool:
    name = demangled(kernel_name)
    return _COMMUNICATION.search(name) is not None and _IN_A_BLOCK.search(name) is None


def _classified(trace: Trace, rows: Int64) -> tuple[Int64, UInt8]:
    slices, strings = trace.slices, trace.strings
    of_kind = np.full(max(SliceKind) + 1, WorkKind.COMPUTE, np.uint8)
    of_kind[SliceKind.MEMCPY] = WorkKind.COPY
    of_kind[SliceKind.MEMSET] = WorkKind.FILL
    kind: UInt8 = of_kind[slices.kind[rows]]
    if not len(rows):
        return rows, kind
    names, is_kernel = slices.name[rows], kind == WorkKind.COMPUTE
    kind[is_kernel & has_text(names, strings, is_communication)] = WorkKind.COMMUNICATION
    if len(slices.args.rest):
        rest = slices.args.rest[rows]
        collective_ids = strings.ids_with(f'"{COLLECTIVE}"')
        kind[is_kernel & np.isin(rest, collective_ids)] = WorkKind.COMMUNICATION
    is_mtia = has_text(slices.category[rows], strings, _MTIA_CATEGORY.__eq__)
    if is_mtia.any():
        kind[is_mtia & has_text(names, strings, _MTIA_COPIES.__contains__)] = WorkKind.COPY
        is_wait = is_mtia & has_text(names, strings, _MTIA_WAITS.__contains__)
        rows, kind = rows[~is_wait], kind[~is_wait]
    return rows, kind


def _devices(trace: Trace, rows: Int64) -> tuple[tuple[str, ...], Int64]:
    """Return the devices' names, and the device of each row: its argument, else its process."""
    number = trace.slices.args.dense("device", len(trace.slices), NO_NUMBER)[rows]
    of_track = np.array([device_number(track) for track in trace.tracks] or [NO_NUMBER])
    number = np.where(number == NO_NUMBER, of_track[trace.slices.track[rows]], number)
    pids, pid = np.unique([track.pid for track in trace.tracks] or [""], return_inverse=True)
    process = pid[trace.slices.track[rows]]
    pairs, device = distinct_pairs(number, process)
    names = [str(pids[p]) if n == NO_NUMBER else str(n) for n, p in zip(*pairs, strict=True)]
    if len(set(names)) < len(names):  # several processes may use one number
        names = [f"{pids[p]}/{name}" for name, p in zip(names, pairs[1], strict=True)]
    return tuple(names), device


def _stream_name(track: Track, number: int) -> str:
    number = stream_number(track) if number == NO_NUMBER else number
    return track.tid.removeprefix("stream ") if number == NO_NUMBER else str(number)
