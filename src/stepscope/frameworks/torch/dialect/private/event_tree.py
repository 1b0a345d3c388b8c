"""The nesting of operators, Python calls and allocations, and the notes about them."""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.calls.backward import backward_functions
from stepscope.frameworks.torch.dialect.private.tensor_ids import Numbers, TensorIds
from stepscope.frameworks.torch.live_objects import LiveObjects, optimizer_call
from stepscope.frameworks.torch.tensor_notes import tensors_of
from stepscope.trace.kinds import device_type_number
from stepscope.trace.model import DEVICE_KINDS, NO_PARENT, NO_THREAD, SliceFlags, SliceKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.frameworks.torch.live_objects import LiveOptimizer, LiveTensor
    from stepscope.frameworks.torch.tensor_notes import TensorNotes
    from stepscope.trace.model import Trace

_SHOWN = (SliceKind.OPERATOR, SliceKind.RANGE, SliceKind.STEP, SliceKind.PYTHON, *DEVICE_KINDS)
_BEGINS_THREAD = re.compile(r"(^|/)threading\.py\(\d+\): _bootstrap$")


class _Replay:
    """Tracks what each thread is in while begins and ends are replayed by time."""

    def __init__(self, count: int, tracks: list[int], forward_tracks: dict[int, int]) -> None:
        self.parents = [NO_PARENT] * count
        self._tracks = tracks
        self._forward_tracks = forward_tracks
        self._innermost: dict[int, int] = {}  # by thread
        self._is_over = bytearray(count)
        self._ends: list[tuple[int, int]] = []

    def begin(self, number: int, start_ns: int, end_ns: int | None) -> None:
        track = self._tracks[number]
        around = self._innermost.get(track)
        if around is None and number in self._forward_tracks:
            around = self._innermost.get(self._forward_tracks[number])
        if around is not None:
            self.parents[number] = around
        if end_ns is None:
            self._innermost[track] = number
        elif end_ns > start_ns:
            self._innermost[track] = number
            heapq.heappush(self._ends, (end_ns, number))
        else:
            self._is_over[number] = True

    def end_until(self, time_ns: int) -> None:
        while self._ends and self._ends[0][0] <= time_ns:
            self._end(heapq.heappop(self._ends)[1])

    def _end(self, number: int) -> None:
        if self._is_over[number]:  # it ended with the node around it
            return
        track = self._tracks[number]
        inner = self._innermost[track]
        while inner != number:
            self._is_over[inner] = True
            inner = self.parents[inner]
        self._is_over[number] = True
        around = self.parents[number]
        if around == NO_PARENT:
            del self._innermost[track]
        else:
            self._innermost[track] = around


class EventTree:
    """The slices and allocations of a recording as numbered nodes, slices first."""

    def __init__(
        self, trace: Trace, notes: TensorNotes | None = None, objects: LiveObjects | None = None
    ) -> None:
        """``notes`` and ``objects`` are what was noted of tensors and modules beside the trace."""
        self.trace = trace
        self._notes = notes
        self.objects = objects or LiveObjects()
        self.nodes: dict[int, Any] = {}  # by number, those that were made
        self.slices = len(trace.slices)

    @cached_property
    def _shown(self) -> Any:
        slices = self.trace.slices
        return np.isin(slices.kind, _SHOWN) & ~self._calls_of_new_threads()

    def _calls_of_new_threads(self) -> Any:
        """Mark the Python calls that torch does not see: those of threads that began meanwhile."""
        slices, strings = self.trace.slices, self.trace.strings
        calls = np.flatnonzero(slices.kind == SliceKind.PYTHON)
        names = {int(name) for name in np.unique(slices.name[calls])}
        begin = [name for name in names if _BEGINS_THREAD.search(strings[name])]
        later = slices.start_ns[calls] > self.trace.info.start_ns
        began = calls[np.isin(slices.name[calls], begin) & later]
        of_new = np.isin(slices.track, np.unique(slices.track[began]))
        return of_new & (slices.kind == SliceKind.PYTHON)

    @cached_property
    def parents(self) -> list[int]:
        """The node around each node as torch determines it, NO_PARENT at the top.

        A node begins inside the last node that its thread began and has not ended. The end of a
        node ends all that its thread began since: a range that outlasts the call that began it
        (that of ``record_function.__enter__``) is inside that call, and contains only what else is.
        """
        trace = self.trace
        tracks = np.concatenate((trace.slices.track, trace.memory.track)).tolist()
        replay = _Replay(len(tracks), tracks, self._forward_tracks())
        ends, starts = self._ends, self.start_ns
        for number in self.in_order:
            replay.end_until(starts[number])
            replay.begin(number, starts[number], ends[number])
        return replay.parents

    @cached_property
    def _ends(self) -> list[int | None]:
        """The end of each node; None if it was never ended."""
        slices = self.trace.slices
        ends: list[int | None] = slices.end_ns.tolist()
        is_open = (slices.flags & SliceFlags.UNFINISHED) != 0
        for row in np.flatnonzero(is_open & (slices.kind != SliceKind.PYTHON)).tolist():
            ends[row] = None
        return [*ends, *self.trace.memory.time_ns.tolist()]

    def _forward_tracks(self) -> dict[int, int]:
        """Return the thread of the forward pass for each backward function that has one."""
        slices = self.trace.slices
        rows = np.flatnonzero((slices.forward_thread != NO_THREAD) & (slices.forward_thread != 0))
        track_of = {track.logical_id: number for number, track in enumerate(self.trace.tracks)}
        threads = zip(rows.tolist(), slices.forward_thread[rows].tolist(), strict=True)
        return {row: track_of[thread] for row, thread in threads if thread in track_of}

    @cached_property
    def start_ns(self) -> list[int]:
        """The start of each node, on the trace's clock."""
        times = (self.trace.slices.start_ns, self.trace.memory.time_ns)
        start_ns: list[int] = np.concatenate(times).tolist()
        return start_ns

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """The nodes directly inside each node, by time; the top ones are under NO_PARENT."""
        inside: dict[int, list[int]] = defaultdict(list)
        for number in self.in_order:
            inside[self.parents[number]].append(number)
        return inside

    @cached_property
    def in_order(self) -> list[int]:
        """All nodes by time, allocations after the node that they are in."""
        shown = np.flatnonzero(self._shown).tolist()
        numbers = [*shown, *range(self.slices, self.slices + len(self.trace.memory))]
        return sorted(numbers, key=lambda number: (self.start_ns[number], number))

    @cached_property
    def is_backward(self) -> Any:
        """Which slices are functions of the backward pass."""
        return backward_functions(self.trace)

    # ---- what nodes have beyond the trace

    @cached_property
    def notes_of(self) -> dict[int, list[Any]]:
        """The noted tensors of each operator, by slice."""
        return {} if self._notes is None else self._notes.by_row(self.trace)

    @cached_property
    def optimizer_of(self) -> dict[int, LiveOptimizer]:
        """The optimizer whose step a Python call is."""
        optimizers = self.objects.optimizers
        if not optimizers:
            return {}
        slices, strings = self.trace.slices, self.trace.strings
        end = optimizer_call()
        rows = [
            int(row)
            for row in np.flatnonzero(slices.kind == SliceKind.PYTHON)
            if strings[int(slices.name[row])].endswith(end)
        ]
        if len(optimizers) == 1:
            return dict.fromkeys(rows, optimizers[0])
        starts = [int(slices.start_ns[row]) for row in rows]
        optimizer_of = {}
        for optimizer in optimizers:  # noted right before its first call begins
            at = bisect_left(starts, optimizer.time_ns)
            if at < len(rows):
                optimizer_of[rows[at]] = optimizer
        return optimizer_of

    @cached_property
    def ids(self) -> dict[Any, Numbers]:
        """The numbers of tensors and blocks.

        The key is the node for allocations; node, position and place for tensors of operators; and
        ``id()`` of the live tensor for those of modules and optimizers.
        """
        ids = TensorIds()
        memory, strings = self.trace.memory, self.trace.strings
        device_words = {int(i): _device_word(strings[int(i)]) for i in np.unique(memory.device)}
        ids_of: dict[Any, Numbers] = {}
        seen: set[int] = set()
        for number in self.in_order:
            if number >= self.slices:
                row = number - self.slices
                address, size = int(memory.address[row]), int(memory.size[row])
                device = device_words[int(memory.device[row])]
                ids_of[number] = ids.block(address, device, is_freed=size < 0)
            elif self.trace.slices.kind[number] == SliceKind.PYTHON:
                self._number_live(number, ids, seen, ids_of)
            else:
                for position, place, note in tensors_of(self.notes_of.get(number, [])):
                    device = f"{note['device_type']}:{note['device_index']}"
                    tensor = int(note["impl"]), int(note["storage"]), device
                    ids_of[number, position, place] = ids.tensor(*tensor)
        ids.finish()
        return ids_of

    def _number_live(
        self, number: int, ids: TensorIds, seen: set[int], ids_of: dict[Any, Numbers]
    ) -> None:
        module = self.objects.modules.get(self.trace.name_of(number))
        owner = module or self.optimizer_of.get(number)
        if owner is None or owner.address in seen:
            return
        seen.add(owner.address)
        for tensor in _live_tensors(owner):
            device = _device_word(str(tensor.device))
            ids_of[id(tensor)] = ids.tensor(tensor.impl, tensor.storage, device)


def _live_tensors(owner: Any) -> Iterator[LiveTensor]:
    for entry in owner.parameters:
        *_, tensor, gradient = entry if isinstance(entry[0], str) else entry[:2]
        yield from (live for live in (tensor, gradient) if live is not None)
        if not isinstance(entry[0], str):
            yield from (state for _, state in entry[2])


def _device_word(name: str) -> str:
    """Spell ``cuda:0`` as the notes about tensors do: kind number and index."""
    kind, _, index = name.partition(":")
    return f"{device_type_number(kind)}:{index or -1}"
