"""Events and averages of torch.profiler as views of a row of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stepscope.analysis.base.labels import flat_dims
from stepscope.analysis.host.averages import added
from stepscope.formats.chrome.python_ids import module_number
from stepscope.frameworks.torch.dialect.event_columns import Fields
from stepscope.frameworks.torch.dialect.measures import Measures
from stepscope.frameworks.torch.dialect.values import Interval, Kernel, number, scalar_value
from stepscope.record.inputs import keywords_of
from stepscope.trace.fragments import fragment_of
from stepscope.trace.keys import (
    CONCRETE_INPUTS,
    EVENT_INDEX,
    EXTERNAL_ID,
    INPUT_DIMS,
    INPUT_STRIDES,
    INPUT_TYPES,
)
from stepscope.trace.model import NO_PARENT, NO_THREAD, SliceKind

if TYPE_CHECKING:
    from stepscope.analysis.host.averages import Averages
    from stepscope.frameworks.torch.dialect.event_columns import EventColumns
    from stepscope.trace.model import Track


_NO_FLOW = (0, 0, False)


class _InTree(Measures):
    """A row that stands in the tree of events."""

    __slots__ = ()

    @property
    def cpu_parent(self) -> FunctionEvent | None:
        """Return the event around it; for a group, around its first event."""
        parent = int(self._columns.tree.parent[self._event])
        return None if parent == NO_PARENT else FunctionEvent(self._columns, parent)

    @property
    def cpu_children(self) -> list[FunctionEvent]:
        """Return the events directly inside it; for a group, inside its first event."""
        columns = self._columns
        return [FunctionEvent(columns, int(i)) for i in columns.tree.children(self._event)]


class FunctionEvent(_InTree):
    """One operator call, range, or piece of device work."""

    __slots__ = ()

    def __init__(self, columns: EventColumns, index: int) -> None:
        super().__init__(columns, columns.rows, index)

    def __repr__(self) -> str:
        device = self.use_device
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name}"
            f" device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str}"
            f" start_us={self.time_range.start} end_us={self.time_range.end}"
            f" cpu_children={[child.id for child in self.cpu_children]}"
            f" {device}_time={self.device_time_str} name={self.name} thread={self.thread}"
            f" input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}"
            f" {device}_memory_usage={self.device_memory_usage} is_async={self.is_async}"
            f" is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )

    @property
    def id(self) -> int:
        """Return the number of the event in its trace, from 1."""
        return self._row + 1

    @property
    def name(self) -> str:
        """Return the name; steps are called ``ProfilerStep*``."""
        return self.key

    @property
    def trace_name(self) -> str:
        """Return the recorded name, in which steps have their numbers."""
        return self._trace.name_of(self._row)

    @property
    def overload_name(self) -> str:
        """Return the operator's overload, or an empty string."""
        return self._text("overload") if self._columns.overloads else ""

    @property
    def activity_type(self) -> str:
        """Return Kineto's name of the kind of event."""
        return self._text("category")

    @property
    def time_range(self) -> Interval:
        trace = self._trace
        start_ns = int(trace.slices.start_ns[self._row]) - trace.info.start_ns
        end_ns = start_ns + int(trace.slices.duration_ns[self._row])
        return Interval(start_ns / 1000, end_ns / 1000)

    @property
    def thread(self) -> int:
        """Return the number of the thread or of the device's stream."""
        track = self._track
        return track.logical_id if track.logical_id != NO_THREAD else number(track.tid)

    @property
    def fwd_thread(self) -> int:
        """Return the number of the thread that ran the forward pass, or 0."""
        thread = int(self._trace.slices.forward_thread[self._row])
        return 0 if thread == NO_THREAD else thread

    @property
    def device_index(self) -> int:
        """Return the number of the device; for the host, that of the process."""
        return number(self._track.pid)

    @property
    def device_resource_id(self) -> int:
        """Return the number of the stream; for the host, the system's thread id."""
        return number(self._track.tid)

    @property
    def sequence_nr(self) -> int:
        """Return the number shared by a backward function and its forward operator, or -1."""
        return int(self._trace.slices.sequence[self._row])

    @property
    def external_id(self) -> int:
        """Return the number by which device work refers to this event."""
        return int(self._args.get(EXTERNAL_ID, self.id))

    @property
    def input_shapes(self) -> list[Any]:
        """Return the shape of each input; an empty list if shapes were not recorded.

        An input that is a list of tensors has the shape ``[]``, as in torch. Its tensors' shapes
        are in ``structured_input_shapes``.
        """
        return flat_dims(self.structured_input_shapes)

    @property
    def structured_input_shapes(self) -> list[Any]:
        """Return the shape of each input; for a list of tensors, the list of their shapes."""
        return list(self._args.get(INPUT_DIMS, []))

    @property
    def structured_input_strides(self) -> list[Any]:
        """Return the strides of the inputs, structured like their shapes."""
        return list(self._args.get(INPUT_STRIDES, []))

    @property
    def input_dtypes(self) -> list[str]:
        """Return the element types of the inputs; empty if not recorded."""
        return list(self._args.get(INPUT_TYPES, []))

    @property
    def concrete_inputs(self) -> list[Any]:
        """Return the values of scalar inputs, and None for other inputs; empty if not recorded."""
        return [scalar_value(text) for text in self._args.get(CONCRETE_INPUTS, [])]

    @property
    def kwinputs(self) -> dict[str, Any]:
        """Return the keyword inputs, by name; empty if not recorded."""
        return keywords_of(self._args)

    @property
    def linked_correlation_id(self) -> int:
        """Return the ``external_id`` of the event that launched this work, or 0."""
        launches = self._columns.launches
        if launches is None or not self._rows.is_device[self._index]:
            return 0
        row = np.flatnonzero(launches.work == self._index)
        return (
            FunctionEvent(self._columns, int(launches.host[row[0]])).external_id if len(row) else 0
        )

    @property
    def python_id(self) -> int:
        """Return the number of a Python call among all of them, from 1; -1 for other events."""
        return self._columns.python_ids.number(self._row)

    @property
    def python_parent_id(self) -> int:
        """Return the number of the Python call around a Python call; -1 for other events."""
        return self._columns.python_ids.caller(self._row)

    @property
    def python_module_id(self) -> int:
        """Return the number of a module among those of its class; -1 for other events."""
        return module_number(self.trace_name) if self.is_python_function else -1

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Return all fields of the event, or None."""
        return self._args or None

    @property
    def metadata_json(self) -> str:
        """Return all fields of the event as the inside of a JSON object.

        After ``patch_torch()`` it is as in torch: empty, or with ``expose_kineto_event_metadata``
        the fields that torch exposes.
        """
        if self._columns.fields is Fields.TORCH_NONE:
            return ""
        if self._columns.fields is Fields.TORCH:
            return f'"{EVENT_INDEX}": {self._row}'
        numbers = {EXTERNAL_ID: self.external_id, EVENT_INDEX: self._row}
        return fragment_of({**numbers, **self._args})

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Raise TypeError: events show what was recorded."""
        raise TypeError(f"{self!r} shows what was recorded: {name} cannot be added to it")

    def append_cpu_child(self, child: object) -> None:
        """Raise TypeError: events show what was recorded."""
        raise TypeError(f"{self!r} shows what was recorded: {child!r} cannot be added to it")

    set_cpu_parent = append_cpu_child

    event_metadata = None  # torch's own form of some of these

    @property
    def flow_id(self) -> int:
        """Return the number, as in files, of the flow that starts or ends here, or 0."""
        return self._columns.flows.get(self._row, _NO_FLOW)[0]

    @property
    def flow_type(self) -> int:
        """Return 1 for a flow to the backward pass, 2 for one to a device, or 0."""
        return self._columns.flows.get(self._row, _NO_FLOW)[1]

    @property
    def flow_start(self) -> bool:
        """Tell whether the flow starts here."""
        return self._columns.flows.get(self._row, _NO_FLOW)[2]

    self_cpu_percent = total_cpu_percent = total_device_percent = -1

    @property
    def stack(self) -> list[str]:
        """Return the Python frames at its start, the innermost first."""
        stacks = self._columns.stacks
        return [] if stacks is None else list(stacks.frames(self._index, self._trace.strings))

    @property
    def is_python_function(self) -> bool:
        """Tell whether it is a call of a Python function."""
        return bool(self._trace.slices.kind[self._row] == SliceKind.PYTHON)

    @property
    def kernels(self) -> list[Kernel]:
        """Return the device work that this event launched itself."""
        launches = self._columns.launches
        if launches is None:
            return []
        work = (FunctionEvent(self._columns, int(i)) for i in launches.work_of(self._index))
        return [Kernel(w.name, w.device_index, w.time_range.elapsed_us()) for w in work]

    @property
    def _args(self) -> dict[str, Any]:
        trace = self._trace
        return trace.slices.args.of_row(self._row, trace.strings)

    @property
    def _track(self) -> Track:
        trace = self._trace
        return trace.tracks[int(trace.slices.track[self._row])]

    def _text(self, column: str) -> str:
        trace = self._trace
        return trace.strings[int(getattr(trace.slices, column)[self._row])]


def row_behind(element: object) -> tuple[Averages, int] | None:
    """Return the table and the row behind a view; None for anything else."""
    if type(element) in (FunctionEvent, FunctionEventAvg):
        return element._rows, element._index  # type: ignore[attr-defined]
    return None


class FunctionEventAvg(_InTree):
    """The sum of all events of one name."""

    __slots__ = ()

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str}"
            f" cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str}"
            f" {device}_time={self.device_time_str} input_shapes={self.input_shapes}"
            f" cpu_memory_usage={self.cpu_memory_usage}"
            f" {device}_memory_usage={self.device_memory_usage}>"
        )

    def add(self, other: Measures) -> Self:
        """Add the sums of another group of the same name."""
        if other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        mine = self._rows.take(np.array([self._index]))
        self._rows = added(mine, other._rows.take(np.array([other._index])))
        self._index = 0
        return self

    __iadd__ = add

    @property
    def input_shapes(self) -> list[Any] | str:
        """Return the shapes of the group; ``""`` if it was not grouped by them."""
        if self._rows.input_shapes is None:
            return ""
        return FunctionEvent(self._columns, self._event).input_shapes

    @property
    def stack(self) -> list[str]:
        """Return the frames of the group; empty if it was not grouped by them."""
        stacks = self._rows.stack
        return [] if stacks is None else list(stacks[self._index])

    @property
    def overload_name(self) -> str:
        """Return the overload of the group; empty if it was not grouped by it."""
        names = self._rows.overload_name
        return "" if names is None else names[self._index]
