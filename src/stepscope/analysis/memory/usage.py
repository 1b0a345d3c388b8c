"""Who allocated and freed memory, and when most of it was in use."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import around, summed
from stepscope.trace.build import tied_to_slices
from stepscope.trace.kinds import device_type_name
from stepscope.trace.model import (
    NO_SLICE,
    Bool,
    Int64,
    Memory,
    SliceKind,
    Trace,
    UInt32,
)
from stepscope.trace.strings import Strings

CPU = "cpu"
_MICROSECOND = 1000  # ns


@dataclass(frozen=True, slots=True)
class SliceMemory:
    """The bytes that every slice itself allocated less those it freed."""

    cpu_self: Int64  # bytes, a row for each slice
    device_self: Int64  # bytes, on every device that is not the CPU
    leftover: Int64  # rows of ``events`` that belong to no slice
    events: Memory
    on_cpu: Bool  # a row for each of ``events``


@dataclass(frozen=True, slots=True)
class Peak:
    """The moment at which most memory of a device was in use."""

    device: str
    bytes: int
    time_ns: int
    slice: int  # the slice that allocated the last of it, NO_SLICE if unknown


@shared
def with_memory(trace: Trace) -> Trace:
    """Return the trace with a filled memory table, if it has memory events.

    Our recordings have the table. torch.profiler's JSON has memory events as instants named
    ``[memory]``; they are turned into the same table here, and the devices' names are added to
    the strings.
    """
    if len(trace.memory):
        return trace
    instants = _instants(trace)
    if not len(instants):
        return trace
    args, rows = trace.marks.args, len(trace.marks)
    device_type = args.dense("Device Type", rows, 0)[instants]
    names, device = _device_names(device_type, args.dense("Device Id", rows, -1)[instants])
    strings, ids = _with_texts(trace.strings, names)
    memory = Memory(
        time_ns=trace.marks.time_ns[instants],
        address=args.dense("Addr", rows, 0)[instants],
        size=args.dense("Bytes", rows, 0)[instants],
        device=ids[device],
        track=trace.marks.track[instants],
        slice=np.full(len(instants), NO_SLICE, np.int32),
        allocated=args.dense("Total Allocated", rows, 0)[instants],
        reserved=args.dense("Total Reserved", rows, 0)[instants],
    )
    memory = tied_to_slices(memory, trace.slices)
    memory = replace(memory, time_ns=_apart(memory.time_ns))
    return replace(trace, strings=strings, memory=memory)


def memory_events(trace: Trace) -> Memory:
    """Return every allocation and release; device ids are those of ``with_memory``'s strings."""
    return with_memory(trace).memory


@shared
def memory_of_slices(
    trace: Trace, *, without: Collection[SliceKind] = (SliceKind.PYTHON,)
) -> SliceMemory:
    """Return the bytes that each slice itself allocated less those it freed.

    An event inside a slice of one of the kinds ``without`` counts for the next slice around it,
    so that Python frames, which most tables do not show, take no memory out of sight.
    """
    trace = with_memory(trace)
    events = trace.memory
    on_cpu = _is_cpu(trace)[events.device]
    counts = ~np.isin(trace.slices.kind, [int(kind) for kind in without])
    holder = around(trace.slices.parent, events.slice, counts, itself=True)
    has_holder = holder != NO_SLICE

    def total(rows: Bool) -> Int64:
        return summed(holder[rows], events.size[rows], len(trace.slices))

    return SliceMemory(
        cpu_self=total(has_holder & on_cpu),
        device_self=total(has_holder & ~on_cpu),
        leftover=np.flatnonzero(~has_holder),
        events=events,
        on_cpu=on_cpu,
    )


def devices(trace: Trace) -> list[str]:
    """Return the names of the devices whose memory was recorded."""
    trace = with_memory(trace)
    return sorted(trace.strings[int(device)] for device in np.unique(trace.memory.device))


def default_device(trace: Trace) -> str:
    """Return ``cuda:0`` if its memory was recorded, else the first device that is no CPU."""
    return min(devices(trace) or [CPU], key=lambda name: (name != "cuda:0", name == CPU, name))


def rows_of_device(trace: Trace, device: str) -> Int64:
    device_id = trace.strings.ids_of([device]).get(device)
    if device_id is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(trace.memory.device == device_id)


def _apart(time_ns: Int64) -> Int64:
    """Put events of the same µs 1 ns apart, in order, if a file has whole µs only.

    Else the allocator's total between two of them would belong to no moment.
    """
    if not len(time_ns) or ((time_ns - time_ns[0]) % _MICROSECOND).any():
        return time_ns
    later = np.arange(len(time_ns)) - np.searchsorted(time_ns, time_ns)
    spread: Int64 = time_ns + np.minimum(later, _MICROSECOND - 1)
    return spread


def _instants(trace: Trace) -> Int64:
    """Return torch.profiler's memory instants, in the order of time."""
    marks = trace.marks
    word = trace.strings.ids_of(["[memory]"]).get("[memory]")
    if word is None or "Bytes" not in marks.args.integers:
        return np.zeros(0, np.int64)
    is_instant = np.zeros(len(marks), bool)
    is_instant[marks.args.integers["Bytes"].rows] = True
    rows = np.flatnonzero(is_instant & (marks.phase == ord("i")) & (marks.name == word))
    return rows[np.argsort(marks.time_ns[rows], kind="stable")]


def _device_names(device_type: Int64, index: Int64) -> tuple[list[str], NDArray[np.intp]]:
    """Return the distinct devices, and each row's device."""
    types, which_type = np.unique(device_type, return_inverse=True)
    places, which_place = np.unique(index, return_inverse=True)
    # As one number each: NumPy compares whole columns ten times as slowly.
    pairs, which = np.unique(which_type * len(places) + which_place, return_inverse=True)
    names = []
    for pair in pairs.tolist():
        number, place = int(types[pair // len(places)]), int(places[pair % len(places)])
        word = device_type_name(number)
        names.append(word if word == CPU or place < 0 else f"{word}:{place}")
    return names, which


def _with_texts(strings: Strings, texts: Iterable[str]) -> tuple[Strings, UInt32]:
    """Return the table with the texts in it, and their ids."""
    texts = list(texts)
    ids = strings.ids_of(texts)
    missing = [text for text in dict.fromkeys(texts) if text not in ids]
    added = Strings.of(["", *missing])
    ids.update({text: len(strings) + i for i, text in enumerate(missing)})
    offsets = np.concatenate([strings.offsets, strings.offsets[-1] + added.offsets[2:]])
    both = Strings(strings.blob + added.blob, offsets)
    return both, np.array([ids[text] for text in texts], np.uint32)


def _is_cpu(trace: Trace) -> Bool:
    table = np.zeros(len(trace.strings), bool)
    for device in np.unique(trace.memory.device):
        table[device] = trace.strings[int(device)].partition(":")[0] == CPU
    return table
