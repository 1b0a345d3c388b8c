"""Converts the data of torch's own collector to columns: operators, inputs, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.record.capture import thread_track
from stepscope.trace.fragments import fragment_of
from stepscope.trace.model import NO_SEQUENCE, NO_THREAD, Args, Memory, SliceFlags
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.frameworks.torch.kineto_results import Allocation, Results


class _Table:
    """Assigns ids to strings or tracks in the order of their first use."""

    def __init__(self, *first: Any) -> None:
        self.rows: dict[Any, int] = {row: i for i, row in enumerate(first)}

    def id_of(self, row: Any) -> int:
        return self.rows.setdefault(row, len(self.rows))


def captured(results: Results, thread_names: Mapping[int, str]) -> Captured:
    """Build the columns; ``thread_names`` is by the system's thread id."""
    strings = _Table("", "cpu_op", "user_annotation")
    tracks = _Table(*results.threads)
    slices = _slices(results, strings, tracks)
    memory = _memory(results.memory, strings, tracks)
    ids = [(logical, results.threads.get(logical, logical)) for logical in tracks.rows]
    return Captured(
        slices,
        tuple(thread_track(tid, logical, thread_names.get(tid, "")) for logical, tid in ids),
        Strings.of(strings.rows),
        memory=memory,
    )


def _slices(results: Results, strings: _Table, tracks: _Table) -> Slices:
    operators = results.operators
    inputs = dict(enumerate(map(fragment_of, results.inputs)))
    names = np.zeros((4, len(operators)), np.uint32)  # category, name, overload, inputs
    numbers = np.zeros((4, len(operators)), np.int64)  # start, duration, sequence, forward thread
    track = np.zeros(len(operators), np.uint32)
    flags = np.zeros(len(operators), np.uint8)
    for i, operator in enumerate(operators):
        category = "user_annotation" if operator.is_range else "cpu_op"
        texts = (category, operator.name, operator.overload, inputs.get(operator.inputs, ""))
        names[:, i] = [strings.id_of(text) for text in texts]
        sequence = operator.sequence if operator.sequence >= 0 else NO_SEQUENCE
        forward = operator.forward_thread or NO_THREAD
        numbers[:, i] = (operator.start_ns, operator.duration_ns, sequence, forward)
        track[i] = tracks.id_of(operator.thread)
        flags[i] = operator.is_backward * SliceFlags.BACKWARD | operator.is_async * SliceFlags.ASYNC
    return Slices.of(
        category=names[0],
        name=names[1],
        start_ns=numbers[0],
        duration_ns=numbers[1],
        track=track,
        overload=names[2],
        flags=flags,
        sequence=numbers[2],
        forward_thread=numbers[3],
        args=Args(rest=names[3]) if names[3].any() else Args(),
    )


def _memory(rows: Sequence[Allocation], strings: _Table, tracks: _Table) -> Memory:
    if not rows:
        return Memory.empty()
    time_ns, address, size, allocated, reserved = np.array(
        [(row.time_ns, row.address, row.size, row.allocated, row.reserved) for row in rows],
        np.int64,
    ).T
    return Memory.of(
        time_ns=time_ns,
        address=address,
        size=size,
        device=np.array([strings.id_of(row.device) for row in rows], np.uint32),
        track=np.array([tracks.id_of(row.thread) for row in rows], np.uint32),
        allocated=allocated,
        reserved=reserved,
    )
