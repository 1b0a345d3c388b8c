"""The result of a recording or a file, as paddle.profiler returns it: trees of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.formats import read_trace
from stepscope.frameworks.paddle.dialect.event_types import as_paddles
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.files.write_json import export_paddle_json
from stepscope.frameworks.paddle.files.write_pb import VERSION, export_paddle_pb, extra_info
from stepscope.frameworks.paddle.memory_events import TracerMemEventType, place_of_device
from stepscope.frameworks.paddle.views.arguments import input_lists
from stepscope.frameworks.paddle.views.forest import Forest
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import BYTES, CALL_STACK
from stepscope.trace.model import NO_CORRELATION

if TYPE_CHECKING:
    import os

    from stepscope.trace.model import Trace

_EXPORTS = {"json": export_paddle_json, "pb": export_paddle_pb}


class ProfilerResult:
    """The events of a trace as Paddle's trees; nodes are made when they are accessed."""

    def __init__(self, trace: Trace) -> None:
        """Accept a trace of any framework; its events are given Paddle's types."""
        self.trace = trace
        self._forest = Forest(trace)

    def get_data(self) -> dict[int, HostNode]:
        """Return the root node of every thread, by the thread's id."""
        forest = self._forest
        tracks = forest.thread_tracks.tolist()
        return {forest.places[track][1]: RootNode(forest, -2 - track) for track in tracks}

    def get_extra_info(self) -> dict[str, str]:
        """Return the names of the threads and the load of the machine."""
        return extra_info(self.trace)

    def get_version(self) -> str:
        """Return the version of Paddle's file layout."""
        version = self.trace.info.user.get("schemaVersion")
        return version if isinstance(version, str) else VERSION

    def get_span_index(self) -> int:
        """Return the number of the recorded cycle within the program."""
        span = str(self.trace.info.user.get("span_index", 0))
        return int(span) if span.isdecimal() else 0

    def save(self, file_name: str | os.PathLike[str], format: str = "json") -> None:
        if format not in _EXPORTS:
            raise ValueError(f"format is {format!r}; use 'json' or 'pb'")
        _EXPORTS[format](self.trace, file_name)


def load_profiler_result(filename: str | os.PathLike[str]) -> ProfilerResult:
    """Read a result that Paddle or Stepscope wrote, in any format.

    This also reads files of Paddle's that Paddle itself cannot load. A file that is no trace raises
    ``TraceReadError``; a file that can be read only in part warns.
    """
    return ProfilerResult(read_trace(filename))


class _Node:
    __slots__ = ("_forest", "row")

    def __init__(self, forest: Forest, row: int) -> None:
        self._forest = forest
        self.row = row

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._forest is other._forest and self.row == other.row

    def __hash__(self) -> int:
        return hash((id(self._forest), self.row))

    def _number(self, key: str) -> int:
        slices = self._forest.trace.slices
        column = slices.args.integers.get(key)
        if column is None:
            return 0
        at = int(np.searchsorted(column.rows, self.row))
        is_there = at < len(column.rows) and column.rows[at] == self.row
        return int(column.values[at]) if is_there else 0

    def _details(self) -> dict[str, Any]:
        trace = self._forest.trace
        rest = trace.slices.args.rest
        fragment = int(rest[self.row]) if len(rest) and self.row >= 0 else 0
        return pairs_of(trace.strings[fragment]) if fragment else {}


class _Event(_Node):
    __slots__ = ()

    @property
    def name(self) -> str:
        return self._forest.trace.name_of(self.row)

    @property
    def type(self) -> Any:
        return as_paddles(TracerEventType(int(self._forest.types[self.row])))

    @property
    def start_ns(self) -> int:
        trace = self._forest.trace
        return int(trace.slices.start_ns[self.row]) + trace.info.wall_offset_ns

    @property
    def end_ns(self) -> int:
        return self.start_ns + int(self._forest.trace.slices.duration_ns[self.row])

    @property
    def correlation_id(self) -> int:
        """Return the number shared by a runtime call and the work that it launched."""
        number = int(self._forest.trace.slices.correlation[self.row])
        return 0 if number == NO_CORRELATION else number


class HostNode(_Event):
    """An event of a thread: a range, an operator or a runtime call."""

    __slots__ = ()

    @property
    def _place(self) -> tuple[int, int]:
        return self._forest.places[int(self._forest.trace.slices.track[self.row])]

    @property
    def process_id(self) -> int:
        return self._place[0]

    @property
    def thread_id(self) -> int:
        return self._place[1]

    @property
    def input_shapes(self) -> dict[str, list[list[int]]]:
        return input_lists(self._details())[0]

    @property
    def dtypes(self) -> dict[str, list[str]]:
        return input_lists(self._details())[1]

    @property
    def callstack(self) -> str:
        """Return the stack of an operator's call; empty if it was not recorded."""
        stack = self._details().get(CALL_STACK, "")
        return stack if isinstance(stack, str) else ""

    @property
    def attributes(self) -> dict[str, Any]:
        """Return an empty dict: Paddle's files have no attributes of operators."""
        return {}

    @property
    def op_id(self) -> int:
        return self._number("Op id")

    @property
    def children_node(self) -> list[HostNode]:
        """Return the events directly inside this one, by time."""
        return [HostNode(self._forest, row) for row in self._forest.children[self.row]]

    @property
    def runtime_node(self) -> list[HostNode]:
        """Return the runtime calls directly inside this event."""
        return [HostNode(self._forest, row) for row in self._forest.calls[self.row]]

    @property
    def device_node(self) -> list[DeviceNode]:
        """Return the device work that a runtime call launched.

        A root has the work whose launching call was not recorded.
        """
        return [DeviceNode(self._forest, row) for row in self._forest.launched[self.row]]

    @property
    def mem_node(self) -> list[MemoryNode]:
        return [MemoryNode(self._forest, row) for row in self._forest.memory_events[self.row]]

    def __repr__(self) -> str:
        return (
            f"HostPythonNode(name={self.name!r}, type={self.type.name!r}, "
            f"start_ns={self.start_ns}, end_ns={self.end_ns}, "
            f"process_id={self.process_id}, thread_id={self.thread_id})"
        )


class RootNode(HostNode):
    """The node above all events of a thread; its row is ``-2 - track``."""

    __slots__ = ()

    name = "root node"
    start_ns = process_id = thread_id = correlation_id = op_id = 0
    end_ns = (1 << 64) - 1  # the end of time

    @property
    def type(self) -> Any:
        return as_paddles(TracerEventType.UserDefined)


def _number_of(key: str) -> Any:
    return property(lambda node: node._number(key))


def _size_of(key: str, dimension: int) -> Any:
    def size(node: _Node) -> int:
        sizes = node._details().get(key)
        return int(sizes[dimension]) if isinstance(sizes, list) and len(sizes) == 3 else 0

    return property(size)


def _real_of(*keys: str) -> Any:
    def real(node: _Node) -> float:
        details = node._details()
        value = next((details[key] for key in keys if key in details), 0.0)
        return float(value) if isinstance(value, int | float) else 0.0

    return property(real)


class DeviceNode(_Event):
    """A kernel, a copy or a filling of memory on a device."""

    __slots__ = ()

    def _place(self, key: str, which: int) -> int:
        trace = self._forest.trace
        if key in trace.slices.args.integers:
            return self._number(key)
        return self._forest.places[int(trace.slices.track[self.row])][which]

    @property
    def device_id(self) -> int:
        return self._place("device", 0)

    @property
    def stream_id(self) -> int:
        return self._place("stream", 1)

    context_id = _number_of("context")
    grid_x, grid_y, grid_z = (_size_of("grid", dimension) for dimension in range(3))
    block_x, block_y, block_z = (_size_of("block", dimension) for dimension in range(3))
    registers_per_thread = _number_of("registers per thread")
    shared_memory = _number_of("shared memory")  # bytes, static and dynamic
    blocks_per_sm = _real_of("blocks per SM")
    warps_per_sm = _real_of("warps per SM")
    _occupancy_percent = _real_of("theoretical achieved occupancy %", "est. achieved occupancy %")
    num_bytes = _number_of(BYTES)
    value = _number_of("value")  # what memory was filled with

    @property
    def occupancy(self) -> float:
        """Return the fraction of a multiprocessor's warps that can be in use, 0 to 1."""
        return float(self._occupancy_percent) / 100

    def __repr__(self) -> str:
        return (
            f"DevicePythonNode(name={self.name!r}, type={self.type.name!r}, "
            f"start_ns={self.start_ns}, end_ns={self.end_ns}, device_id={self.device_id}, "
            f"context_id={self.context_id}, stream_id={self.stream_id})"
        )


def _figure_of(key: str) -> Any:
    return property(lambda node: int(node._forest.memory_figures[key][node.row]))


def _column_of(key: str) -> Any:
    return property(lambda node: node._column(key))


class MemoryNode(_Node):
    """An allocation or a release of memory."""

    __slots__ = ()

    def _column(self, key: str) -> int:
        return int(getattr(self._forest.trace.memory, key)[self.row])

    @property
    def timestamp_ns(self) -> int:
        return self._column("time_ns") + self._forest.trace.info.wall_offset_ns

    @property
    def type(self) -> Any:
        """Return Paddle's own type where Paddle is imported, else ours."""
        return as_paddles(TracerMemEventType(self._kind))

    @property
    def addr(self) -> int:
        return self._column("address") % (1 << 64)

    @property
    def place(self) -> str:
        """Return the device, in Paddle's spelling."""
        return place_of_device(self._forest.trace.strings[self._column("device")])

    @property
    def process_id(self) -> int:
        return self._forest.places[self._column("track")][0]

    @property
    def thread_id(self) -> int:
        return self._forest.places[self._column("track")][1]

    _kind = _figure_of("type")
    increase_bytes = _figure_of("increase")  # negative for a release
    current_allocated = _column_of("allocated")
    current_reserved = _column_of("reserved")
    peak_allocated = _figure_of("peak_allocated")
    peak_reserved = _figure_of("peak_reserved")

    def __repr__(self) -> str:
        return (
            f"MemPythonNode(timestamp_ns={self.timestamp_ns}, addr={self.addr}, "
            f"type={self.type.name!r}, process_id={self.process_id}, thread_id={self.thread_id})"
        )
