"""What torch's own collector has seen, as columns: operators, their inputs, and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import _native
from stepscope.record.capture import thread_track
from stepscope.record.inputs import scalar_text
from stepscope.record.threads import thread_names
from stepscope.trace.fragments import fragment_of
from stepscope.trace.keys import CONCRETE_INPUTS, INPUT_DIMS, INPUT_STRIDES, INPUT_TYPES
from stepscope.trace.model import NO_SEQUENCE, NO_THREAD, Args, Memory, SliceFlags
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.trace.model import UInt32

_BACKWARD_FUNCTION = 1  # at::RecordScope
_USER_SCOPE = 7
_MEMORY = "[memory]"
_STRIDED = "torch.strided"


class _Table:
    """Strings or tracks by first sight."""

    def __init__(self, *first: Any) -> None:
        self.rows: dict[Any, int] = {row: i for i, row in enumerate(first)}

    def id_of(self, row: Any) -> int:
        return self.rows.setdefault(row, len(self.rows))


def captured(results: Any, *, shapes: bool, memory: bool) -> Captured:
    """Turn the collector's event objects into columns; its clock is the wall's."""
    events = [e for e in results.events() if str(e.device_type()).endswith("CPU")]
    strings = _Table("", "cpu_op", "user_annotation")
    # A thread's number in the system, by torch's own number of it.
    threads = {event.start_thread_id(): event.device_resource_id() for event in events}
    tracks = _Table(*threads)
    operators = [e for e in events if not e.is_hidden_event() and e.name() != _MEMORY]
    tree = list(_walked(results.experimental_event_tree())) if shapes or memory else []
    slices = _slices(operators, strings, tracks, _inputs(operators, tree, strings, shapes))
    allocated = _memory(tree, strings, tracks) if memory else Memory.empty()
    called = thread_names()
    return Captured(
        slices,
        tuple(
            thread_track(threads[logical], logical, called.get(threads[logical], ""))
            for logical in tracks.rows
        ),
        Strings.of(strings.rows),
        memory=allocated,
    )


def _slices(operators: Sequence[Any], strings: _Table, tracks: _Table, inputs: UInt32) -> Slices:
    names = np.zeros((3, len(operators)), np.uint32)  # category, name, overload
    numbers = np.zeros((4, len(operators)), np.int64)  # start, duration, sequence, forward thread
    track = np.zeros(len(operators), np.uint32)
    flags = np.zeros(len(operators), np.uint8)
    for i, event in enumerate(operators):
        category = "user_annotation" if event.scope() == _USER_SCOPE else "cpu_op"
        overload = event.overload_name() if hasattr(event, "overload_name") else ""
        names[:, i] = [strings.id_of(text) for text in (category, event.name(), overload)]
        forward = event.fwd_thread_id() or NO_THREAD
        sequence = event.sequence_nr() if event.sequence_nr() >= 0 else NO_SEQUENCE
        numbers[:, i] = (event.start_ns(), event.duration_ns(), sequence, forward)
        track[i] = tracks.id_of(event.start_thread_id())
        flags[i] = (SliceFlags.BACKWARD if event.scope() == _BACKWARD_FUNCTION else 0) | (
            SliceFlags.ASYNC if event.is_async() else 0
        )
    return Slices.of(
        category=names[0],
        name=names[1],
        start_ns=numbers[0] - _native.wall_offset_ns(),
        duration_ns=numbers[1],
        track=track,
        overload=names[2],
        flags=flags,
        sequence=numbers[2],
        forward_thread=numbers[3],
        args=Args(rest=inputs) if len(inputs) else Args(),
    )


def _walked(tree: Sequence[Any]) -> Iterator[Any]:
    """Yield the events of the tree, which has what the list has not: tensors and addresses."""
    left = list(tree)
    while left:
        event = left.pop()
        yield event
        left.extend(event.children)


# ---- inputs


def _inputs(operators: Sequence[Any], tree: Sequence[Any], strings: _Table, wanted: bool) -> UInt32:
    """Return the string of each operator's inputs, in the words of the bridge; 0 without any."""
    if not wanted:
        return np.zeros(0, np.uint32)
    tensors_of = {
        event.correlation_id: event.typed[1].inputs
        for event in tree
        if str(event.tag).endswith("TorchOp")
    }
    ids = np.zeros(len(operators), np.uint32)
    for i, event in enumerate(operators):
        types = event.dtypes()
        if types and event.scope() != _USER_SCOPE:
            tensors = tensors_of.get(event.correlation_id()) or [None] * len(types)
            ids[i] = strings.id_of(_fragment(types, event.concrete_inputs(), tensors))
    return ids


def _fragment(types: Sequence[str], values: Sequence[Any], tensors: Sequence[Any]) -> str:
    dims, strides, words = [], [], []
    for kind, value, tensor in zip(types, values, tensors, strict=True):
        dims.append(_of_tensors(kind, tensor, _dims))
        strides.append(_of_tensors(kind, tensor, _strides))
        words.append(_word(kind, value))
    columns = {
        CONCRETE_INPUTS: words,
        INPUT_TYPES: types,
        INPUT_STRIDES: strides,
        INPUT_DIMS: dims,
    }
    return fragment_of(columns)


def _of_tensors(kind: str, tensor: Any, numbers: Any) -> list[Any]:
    if kind == "TensorList":
        return [numbers(each) for each in tensor or ()]
    return numbers(tensor) if hasattr(tensor, "sizes") else []


def _dims(tensor: Any) -> list[int]:
    return list(tensor.sizes)


def _strides(tensor: Any) -> list[int]:
    return list(tensor.strides) if str(tensor.layout) == _STRIDED else []


def _word(kind: str, value: Any) -> str:
    if kind == "ScalarList" and isinstance(value, list):
        return f"[{', '.join(map(scalar_text, value))}]"
    return scalar_text(value) if kind == "Scalar" else ""


# ---- memory


def _memory(tree: Sequence[Any], strings: _Table, tracks: _Table) -> Memory:
    """Return the allocations; a block of the host from before the recording is not counted."""
    events = [event for event in tree if str(event.tag).endswith("Allocation")]
    events.sort(key=lambda event: int(event.start_time_ns))
    blocks: dict[int, int] = {}
    in_use = 0
    rows = []
    for event in events:
        what = event.typed[1]
        address, size = what.ptr, what.alloc_size
        totals = (what.total_allocated, what.total_reserved)
        if what.device.type == "cpu":
            if size < 0:
                size = -blocks.pop(address, 0)
            else:
                blocks[address] = size
            if not size:
                continue
            in_use += size
            totals = (in_use, 0)
        device = strings.id_of(str(what.device))
        track = tracks.id_of(event.start_tid)
        rows.append((event.start_time_ns, address, size, device, track, *totals))
    if not rows:
        return Memory.empty()
    time_ns, address, size, device, track, allocated, reserved = np.array(rows, np.int64).T
    return Memory.of(
        time_ns=time_ns - _native.wall_offset_ns(),
        address=address,
        size=size,
        device=device.astype(np.uint32),
        track=track.astype(np.uint32),
        allocated=allocated,
        reserved=reserved,
    )
