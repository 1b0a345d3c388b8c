"""``kineto_results``: the events in the form that torch's own code and tools read."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.frameworks.torch.dialect.event_columns import EventColumns, Fields
from stepscope.frameworks.torch.dialect.function_event import FunctionEvent
from stepscope.frameworks.torch.dialect.lists import MadeWhenTouched
from stepscope.frameworks.torch.dialect.private.event_tree import EventTree
from stepscope.frameworks.torch.dialect.private.nodes import roots_of
from stepscope.frameworks.torch.dialect.values import number
from stepscope.trace.model import NO_THREAD

if TYPE_CHECKING:
    import os

    from stepscope.frameworks.torch.dialect.private.nodes import Node
    from stepscope.frameworks.torch.live_objects import LiveObjects
    from stepscope.frameworks.torch.tensor_notes import TensorNotes
    from stepscope.trace.model import Trace


_given_ids = 0
_MAX_IDS = 2**32 - 1


def _ids_for(events: int) -> int:
    """Reserve numbers for so many events; return the number before the first."""
    global _given_ids  # noqa: PLW0603 - they are unique in the process
    if _given_ids + events >= _MAX_IDS:
        _given_ids = 0
    first = _given_ids
    _given_ids += events + 1
    return first


class KinetoResults:
    """torch's ``_ProfilerResult`` of one recording."""

    def __init__(
        self,
        trace: Trace,
        notes: TensorNotes | None,
        objects: LiveObjects | None,
        *,
        with_flops: bool,
        overloads: bool = True,
        fields: Fields = Fields.ALL,
    ) -> None:
        self._trace = trace
        self._tree = EventTree(trace, notes, objects)
        self._columns = EventColumns(
            trace, with_flops=with_flops, overloads=overloads, fields=fields, folds=False
        )
        self._first_id = _ids_for(len(trace.slices) + len(trace.memory))

    def trace_start_ns(self) -> int:
        """Return when the recording began, in ns of Unix time."""
        return self._trace.info.start_ns + self._trace.info.wall_offset_ns

    def events(self) -> list[Any]:
        """Return all events and allocations by time."""
        return self._events

    @cached_property
    def _events(self) -> KinetoEvents:
        return KinetoEvents(self._columns, self._first_id)

    def experimental_event_tree(self) -> list[Node]:
        """Return the top events, which contain the others."""
        return roots_of(self._tree)

    def save(self, path: str | os.PathLike[str]) -> None:
        from stepscope.formats.chrome.write import export_chrome

        export_chrome(self._trace, path)


class KinetoEvents(MadeWhenTouched[Any]):
    """All events of a trace, and its allocations."""

    def __init__(self, columns: EventColumns, first_id: int = 0) -> None:
        super().__init__()
        self._columns = columns
        self._first_id = first_id

    def _size(self) -> int:
        return len(self._columns.tree) + len(self._columns.trace.memory)

    @cached_property
    def _order(self) -> Any:
        """The events, then the allocations, by start time."""
        times = (self._columns.tree.start_ns, self._columns.trace.memory.time_ns)
        return np.argsort(np.concatenate(times), kind="stable")

    def _make(self, index: int) -> Any:
        events = len(self._columns.tree)
        index = int(self._order[index])
        if index < events:
            return KinetoEvent(FunctionEvent(self._columns, index), self._first_id)
        return MemoryEvent(self._columns, index - events)


def _always(value: int) -> Any:
    return lambda _event: value


def _always_empty(kind: type) -> Any:
    return lambda _event: kind()


class KinetoEvent:
    """torch's ``_KinetoEvent``: the facts of a FunctionEvent, as methods."""

    __slots__ = ("_event", "_first_id")

    def __init__(self, event: FunctionEvent, first_id: int = 0) -> None:
        """``first_id`` is added to the numbers of the recording's events."""
        self._event = event
        self._first_id = first_id

    def name(self) -> str:
        return self._event.trace_name

    def start_ns(self) -> int:
        """Return the start in ns of Unix time."""
        trace = self._event._trace
        return int(trace.slices.start_ns[self._event._row]) + trace.info.wall_offset_ns

    def duration_ns(self) -> int:
        return int(self._event._trace.slices.duration_ns[self._event._row])

    def end_ns(self) -> int:
        return self.start_ns() + self.duration_ns()

    def start_thread_id(self) -> int:
        return self._event.thread

    def end_thread_id(self) -> int:
        """Return the starting thread; the end's is not recorded."""
        return self._event.thread

    def shapes(self) -> list[Any]:
        return self._event.input_shapes

    def dtypes(self) -> list[str]:
        return self._event.input_dtypes

    def correlation_id(self) -> int:
        """Return the number by which device work refers to this event; unique in the process."""
        return self._first_id + self._event.external_id

    def linked_correlation_id(self) -> int:
        """Return the number of the event that launched this work, else 0."""
        linked = self._event.linked_correlation_id
        return self._first_id + linked if linked else 0

    def fwd_thread_id(self) -> int:
        """Return the number of the thread that ran the forward pass, or 0."""
        return self._event.fwd_thread

    def has_stack(self) -> bool:
        return bool(self._event.stack)

    # Modules are in ``module_table()``, memory and device work in events of their own.
    has_module_hierarchy = is_hidden_event = _always(False)
    module_hierarchy = _always_empty(list)
    extra_meta = _always_empty(dict)
    nbytes = _always(0)
    cuda_elapsed_us = privateuse1_elapsed_us = _always(-1)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._event, name)
        return lambda: value


class MemoryEvent:
    """Memory that was handed out or given back, among torch's events."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: EventColumns, row: int) -> None:
        self._columns = columns
        self._row = row

    def name(self) -> str:
        return "[memory]"

    def start_ns(self) -> int:
        """Return the time in ns of Unix time."""
        trace = self._columns.trace
        return int(trace.memory.time_ns[self._row]) + trace.info.wall_offset_ns

    end_ns = start_ns

    def nbytes(self) -> int:
        """Return the bytes, negative for a release."""
        return int(self._columns.trace.memory.size[self._row])

    def device_type(self) -> Any:
        return self._columns.device_type(not self._device().startswith("cpu"))

    def device_index(self) -> int:
        return int(self._device().partition(":")[2] or -1)

    def start_thread_id(self) -> int:
        trace = self._columns.trace
        track = trace.tracks[int(trace.memory.track[self._row])]
        return track.logical_id if track.logical_id != NO_THREAD else int(track.tid)

    end_thread_id = start_thread_id

    def device_resource_id(self) -> int:
        """Return the system's thread id."""
        trace = self._columns.trace
        return number(trace.tracks[int(trace.memory.track[self._row])].tid)

    def _device(self) -> str:
        trace = self._columns.trace
        return trace.strings[int(trace.memory.device[self._row])]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _OF_NOTHING:
            raise AttributeError(f"an event of memory has no {name}")
        value = _OF_NOTHING[name]
        return lambda: list(value) if isinstance(value, tuple) else value


_OF_NOTHING: dict[str, Any] = {
    **dict.fromkeys(
        ("duration_ns", "correlation_id", "linked_correlation_id", "scope", "flops"), 0
    ),
    **dict.fromkeys(("fwd_thread_id", "flow_id", "flow_type", "external_id"), 0),
    **dict.fromkeys(("shapes", "dtypes", "concrete_inputs", "stack", "module_hierarchy"), ()),
    **dict.fromkeys(("structured_input_shapes", "structured_input_strides"), ()),
    **dict.fromkeys(("is_async", "is_user_annotation", "is_python_function", "flow_start"), False),
    **dict.fromkeys(("has_stack", "has_module_hierarchy"), False),
    **dict.fromkeys(("sequence_nr", "cuda_elapsed_us", "privateuse1_elapsed_us"), -1),
    **dict.fromkeys(("python_id", "python_parent_id", "python_module_id"), -1),
    **dict.fromkeys(("overload_name", "metadata_json"), ""),
    "activity_type": "cpu_instant_event",
    "is_hidden_event": False,
    "kwinputs": {},
    "extra_meta": {},
}
