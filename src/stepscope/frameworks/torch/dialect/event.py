"""One event and one average as torch.profiler's users know them: views of a row of columns."""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stepscope.analysis.host.averages import ANNOTATION_KINDS, added, rows_of
from stepscope.analysis.host.python_ids import module_number
from stepscope.analysis.labels import flat_dims
from stepscope.frameworks.torch.dialect.values import Interval, Kernel, number, scalar_value
from stepscope.record.inputs import keywords_of
from stepscope.text.averages import time_text
from stepscope.trace.model import NO_PARENT, NO_THREAD, SliceKind

if TYPE_CHECKING:
    from stepscope.analysis.host.averages import Averages
    from stepscope.frameworks.torch.dialect.columns import EventColumns
    from stepscope.trace.model import Trace, Track

_SCOPE_FUNCTION, _SCOPE_BACKWARD, _SCOPE_USER = 0, 1, 7  # as at::RecordScope numbers them


def _renamed(old: str, new: str) -> Any:
    def get(self: object) -> Any:
        message = f"`{old}` is deprecated, please use `{new}` instead."
        warnings.warn(message, FutureWarning, stacklevel=2)
        return getattr(self, new)

    return property(get, doc=f"Return ``{new}``, under its old name.")


def _spelled(name: str) -> Any:
    def get(self: object) -> str:
        return time_text(getattr(self, name))

    return property(get, doc=f"Return ``{name}`` with its unit.")


def _number_of(column: str, what: str) -> Any:
    def get(self: _Measures) -> int:
        numbers = getattr(self._rows, column)
        return 0 if numbers is None else int(numbers[self._index])

    return property(get, doc=f"Return {what}; 0 where they are not known.")


class _Measures:
    """The numbers of one row of averages, in µs."""

    __slots__ = ("_columns", "_index", "_rows")

    def __init__(self, columns: EventColumns, rows: Averages, index: int) -> None:
        self._columns = columns
        self._rows = rows
        self._index = index

    is_remote = False
    is_legacy = False
    node_id = -1

    cpu_memory_usage = _number_of(
        "cpu_bytes", "the bytes allocated less those freed, children's too"
    )
    self_cpu_memory_usage = _number_of("self_cpu_bytes", "the same without the children")
    device_memory_usage = _number_of("device_bytes", "the bytes allocated less freed on the device")
    self_device_memory_usage = _number_of("self_device_bytes", "the same without the children")
    flops = _number_of(
        "flops", "the floating-point operations, where ``with_flops`` asked for them"
    )

    cpu_time_str = _spelled("cpu_time")
    device_time_str = _spelled("device_time")
    cpu_time_total_str = _spelled("cpu_time_total")
    device_time_total_str = _spelled("device_time_total")
    self_cpu_time_total_str = _spelled("self_cpu_time_total")
    self_device_time_total_str = _spelled("self_device_time_total")

    cuda_time = _renamed("cuda_time", "device_time")
    cuda_time_total = _renamed("cuda_time_total", "device_time_total")
    self_cuda_time_total = _renamed("self_cuda_time_total", "self_device_time_total")
    cuda_memory_usage = _renamed("cuda_memory_usage", "device_memory_usage")
    self_cuda_memory_usage = _renamed("self_cuda_memory_usage", "self_device_memory_usage")

    def __eq__(self, other: object) -> bool:
        """Tell whether both are views of the same row."""
        if not isinstance(other, _Measures):
            return NotImplemented
        return self._rows is other._rows and self._index == other._index

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash((id(self._rows), self._index))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Return torch's class of that name where it is in use: its own code asks for it."""
        util = sys.modules.get("torch.autograd.profiler_util")
        found: type = getattr(util, type(self).__name__, type(self))
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it is a view of."""
        return type(self)._of, (self._columns, self._rows, self._index)

    @classmethod
    def _of(cls, columns: EventColumns, rows: Averages, index: int) -> _Measures:
        made = cls.__new__(cls)
        _Measures.__init__(made, columns, rows, index)
        return made

    @property
    def key(self) -> str:
        """Return the name under which averages group it."""
        return self._rows.key[self._index]

    @property
    def count(self) -> int:
        """Return the number of events."""
        return int(self._rows.count[self._index])

    @property
    def cpu_time_total(self) -> float:
        """Return the time on the host, children included."""
        return int(self._rows.cpu_ns[self._index]) / 1000

    @property
    def self_cpu_time_total(self) -> float:
        """Return the time on the host, children excluded."""
        return int(self._rows.self_cpu_ns[self._index]) / 1000

    @property
    def device_time_total(self) -> float:
        """Return the time on the device, that of what children launched included."""
        return int(self._rows.device_ns[self._index]) / 1000

    @property
    def self_device_time_total(self) -> float:
        """Return the time on the device, that of what children launched excluded."""
        return int(self._rows.self_device_ns[self._index]) / 1000

    @property
    def cpu_time(self) -> float:
        """Return the host time of one event, on average."""
        return self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Return the device time of one event, on average."""
        return self.device_time_total / self.count

    @property
    def flops_per_second(self) -> float:
        """Return the FLOP/s of the calls: in device time where there is any, else in host time."""
        ns = self._rows.device_ns[self._index] or self._rows.cpu_ns[self._index]
        return self.flops * 1e9 / int(ns) if ns else 0.0

    @property
    def is_async(self) -> bool:
        """Tell whether it ended on another thread than it started on."""
        return bool(self._rows.is_async[self._index])

    @property
    def is_user_annotation(self) -> bool:
        """Tell whether it is a range that the user named."""
        return bool(self._rows.is_annotation[self._index])

    @property
    def use_device(self) -> str | None:
        """Return the name of the device whose work was recorded, None without one."""
        return self._columns.use_device

    @property
    def device_type(self) -> Any:
        """Return where it ran."""
        return self._columns.device_type(bool(self._rows.is_device[self._index]))

    @property
    def scope(self) -> int:
        """Return at::RecordScope's number: a function 0, a backward one 1, a user's range 7."""
        row = self._row
        if self._columns.is_backward[row]:
            return _SCOPE_BACKWARD
        kind = self._trace.slices.kind[row]
        return _SCOPE_USER if kind in ANNOTATION_KINDS else _SCOPE_FUNCTION

    @property
    def cpu_parent(self) -> FunctionEvent | None:
        """Return the event around it, or around the first of its group."""
        parent = int(self._columns.tree.parent[self._event])
        return None if parent == NO_PARENT else FunctionEvent(self._columns, parent)

    @property
    def cpu_children(self) -> list[FunctionEvent]:
        """Return the events directly inside it, or inside the first of its group."""
        columns = self._columns
        return [FunctionEvent(columns, int(i)) for i in columns.tree.children(self._event)]

    @property
    def _event(self) -> int:
        return int(self._rows.first[self._index])

    @property
    def _row(self) -> int:
        return self._columns.tree.row(self._event)

    @property
    def _trace(self) -> Trace:
        return self._columns.tree.trace


class FunctionEvent(_Measures):
    """One operator call, range, or piece of device work."""

    __slots__ = ()

    def __init__(self, columns: EventColumns, index: int) -> None:
        """Look at one event."""
        super().__init__(columns, columns.each, index)

    def __repr__(self) -> str:
        """Return the event's facts in torch's order."""
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
        """Return a number that no other event of the trace has, from 1."""
        return self._row + 1

    @property
    def name(self) -> str:
        """Return the name; every step is called ``ProfilerStep*``."""
        return self.key

    @property
    def trace_name(self) -> str:
        """Return the name as recorded: steps keep their numbers."""
        return self._trace.name_of(self._row)

    @property
    def overload_name(self) -> str:
        """Return the operator's overload, empty where it has none."""
        return self._text("overload") if self._columns.overloads else ""

    @property
    def activity_type(self) -> str:
        """Return the kind of event, in Kineto's words."""
        return self._text("category")

    @property
    def time_range(self) -> Interval:
        """Return when it ran."""
        trace = self._trace
        start_ns = int(trace.slices.start_ns[self._row]) - trace.info.start_ns
        end_ns = start_ns + int(trace.slices.duration_ns[self._row])
        return Interval(start_ns / 1000, end_ns / 1000)

    @property
    def thread(self) -> int:
        """Return the number of the thread, or of the device's stream."""
        track = self._track
        return track.logical_id if track.logical_id != NO_THREAD else number(track.tid)

    @property
    def fwd_thread(self) -> int:
        """Return the number of the thread that ran the forward pass, 0 where there is none."""
        thread = int(self._trace.slices.forward_thread[self._row])
        return 0 if thread == NO_THREAD else thread

    @property
    def device_index(self) -> int:
        """Return the number of the device; the process for what ran on the host."""
        return number(self._track.pid)

    @property
    def device_resource_id(self) -> int:
        """Return the number of the stream; the system's thread for what ran on the host."""
        return number(self._track.tid)

    @property
    def sequence_nr(self) -> int:
        """Return the number that a backward function shares with its forward operator, or -1."""
        return int(self._trace.slices.sequence[self._row])

    @property
    def external_id(self) -> int:
        """Return the number by which device work refers to this event."""
        return int(self._args.get("External id", self.id))

    @property
    def input_shapes(self) -> list[Any]:
        """Return the shapes of the inputs, empty where they were not recorded.

        A list of tensors shows as ``[]``, as in torch; ``structured_input_shapes`` has its shapes.
        """
        return flat_dims(self.structured_input_shapes)

    @property
    def structured_input_shapes(self) -> list[Any]:
        """Return the shapes of the inputs, with one for each tensor of a list of tensors."""
        return list(self._args.get("Input Dims", []))

    @property
    def structured_input_strides(self) -> list[Any]:
        """Return the strides of the inputs, in the same form as their structured shapes."""
        return list(self._args.get("Input Strides", []))

    @property
    def input_dtypes(self) -> list[str]:
        """Return the element types of the inputs, empty where they were not recorded."""
        return list(self._args.get("Input type", []))

    @property
    def concrete_inputs(self) -> list[Any]:
        """Return the values of scalar inputs, None for all others; empty if not recorded."""
        return [scalar_value(text) for text in self._args.get("Concrete Inputs", [])]

    @property
    def kwinputs(self) -> dict[str, Any]:
        """Return the keyword inputs, by name; empty if not recorded."""
        return keywords_of(self._args)

    @property
    def linked_correlation_id(self) -> int:
        """Return the ``external_id`` of the event that launched this work, 0 for all else."""
        known = self._columns.launches
        if known is None or not self._rows.is_device[self._index]:
            return 0
        found = np.flatnonzero(known.work == self._index)
        return (
            FunctionEvent(self._columns, int(known.host[found[0]])).external_id if len(found) else 0
        )

    @property
    def python_id(self) -> int:
        """Return the number of a Python call among all of them, from 1; -1 for all else."""
        return self._columns.python_ids.number(self._row)

    @property
    def python_parent_id(self) -> int:
        """Return the number of the Python call around a Python call; -1 for all else."""
        return self._columns.python_ids.caller(self._row)

    @property
    def python_module_id(self) -> int:
        """Return the number of a module among those of its class; -1 for all else."""
        return module_number(self.trace_name) if self.is_python_function else -1

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Return all fields of the event; None where it has none."""
        return self._args or None

    @property
    def metadata_json(self) -> str:
        """Return all fields of the event as the inside of a JSON object."""
        return json.dumps(self._args)[1:-1]

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Refuse: events show what was recorded."""
        raise TypeError(f"{self!r} shows what was recorded: {name} cannot be added to it")

    def append_cpu_child(self, child: object) -> None:
        """Refuse: events show what was recorded."""
        raise TypeError(f"{self!r} shows what was recorded: {child!r} cannot be added to it")

    set_cpu_parent = append_cpu_child

    event_metadata = None  # torch's own form of a few of these
    flow_id = flow_type = 0
    flow_start = False
    self_cpu_percent = total_cpu_percent = total_device_percent = -1

    @property
    def stack(self) -> list[str]:
        """Return the Python frames in which it started, the innermost first."""
        stacks = self._columns.stacks
        return [] if stacks is None else list(stacks.frames(self._index, self._trace.strings))

    @property
    def is_python_function(self) -> bool:
        """Tell whether it is a call of a Python function."""
        return bool(self._trace.slices.kind[self._row] == SliceKind.PYTHON)

    @property
    def kernels(self) -> list[Kernel]:
        """Return the device work that this very event launched."""
        known = self._columns.launches
        if known is None:
            return []
        work = (FunctionEvent(self._columns, int(i)) for i in known.work_of(self._index))
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
    """Return the table and the row that a view shows; None for anything else."""
    if type(element) in (FunctionEvent, FunctionEventAvg):
        return element._rows, element._index  # type: ignore[attr-defined]
    return None


class FunctionEventAvg(_Measures):
    """All events of one name, summed."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the sums in torch's order."""
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str}"
            f" cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str}"
            f" {device}_time={self.device_time_str} input_shapes={self.input_shapes}"
            f" cpu_memory_usage={self.cpu_memory_usage}"
            f" {device}_memory_usage={self.device_memory_usage}>"
        )

    def add(self, other: _Measures) -> Self:
        """Add the sums of another group of the same name to these."""
        if other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        mine = rows_of(self._rows, np.array([self._index]))
        self._rows = added(mine, rows_of(other._rows, np.array([other._index])))
        self._index = 0
        return self

    __iadd__ = add

    @property
    def input_shapes(self) -> list[Any] | str:
        """Return the shapes that the group shares, ``""`` when it was not grouped by them."""
        if self._rows.input_shapes is None:
            return ""
        return FunctionEvent(self._columns, self._event).input_shapes

    @property
    def stack(self) -> list[str]:
        """Return the frames that the group shares, none when it was not grouped by them."""
        stacks = self._rows.stack
        return [] if stacks is None else list(stacks[self._index])

    @property
    def overload_name(self) -> str:
        """Return the overload that the group shares, empty when it was not grouped by it."""
        names = self._rows.overload_name
        return "" if names is None else names[self._index]
