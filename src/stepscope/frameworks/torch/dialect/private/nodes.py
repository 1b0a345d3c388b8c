"""``experimental_event_tree()``: operators, calls and allocations as nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.frameworks.torch.dialect.private.fields import (
    Allocation,
    PyCall,
    PyCCall,
    TorchOp,
    Work,
    is_c_call,
    torch_profiler,
)
from stepscope.trace.model import DEVICE_KINDS, NO_PARENT, NO_THREAD, SliceKind

if TYPE_CHECKING:
    from stepscope.frameworks.torch.dialect.private.event_tree import EventTree


def roots_of(tree: EventTree) -> list[Node]:
    return [node_of(tree, number) for number in tree.children[NO_PARENT]]


def node_of(tree: EventTree, number: int) -> Node:
    """Return the node of a number, the same object each time."""
    if number not in tree.nodes:
        tree.nodes[number] = Node(tree, number)
    node: Node = tree.nodes[number]
    return node


class Node:
    """One operator, call or allocation: torch's ``_ProfilerEvent``."""

    __slots__ = ("_number", "_tree", "extra_fields")

    def __init__(self, tree: EventTree, number: int) -> None:
        self._tree = tree
        self._number = number
        self.extra_fields = self._fields()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return torch_profiler("_ProfilerEvent")  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<event {self.name!r}, {len(self.children)} children>"

    def _fields(self) -> Any:
        tree, number = self._tree, self._number
        if number >= tree.slices:
            return Allocation(tree, number)
        kind = tree.trace.slices.kind[number]
        if kind == SliceKind.PYTHON:
            is_c = is_c_call(tree.trace.name_of(number))
            return PyCCall(tree, number) if is_c else PyCall(tree, number)
        return Work(tree, number) if kind in DEVICE_KINDS else TorchOp(tree, number)

    @property
    def tag(self) -> Any:
        return getattr(torch_profiler("_EventType"), self.extra_fields.tag)

    @property
    def typed(self) -> tuple[Any, Any]:
        """Return the kind of event and its fields."""
        return self.tag, self.extra_fields

    @property
    def name(self) -> str:
        in_trace = self._number < self._tree.slices
        return self._tree.trace.name_of(self._number) if in_trace else "[memory]"

    @property
    def overload_name(self) -> str:
        return self.extra_fields.overload_name if self.extra_fields.tag == "TorchOp" else ""

    @property
    def parent(self) -> Node | None:
        parent = self._tree.parents[self._number]
        return None if parent == NO_PARENT else node_of(self._tree, parent)

    @property
    def children(self) -> list[Node]:
        return [node_of(self._tree, number) for number in self._tree.children.get(self._number, ())]

    @property
    def start_time_ns(self) -> int:
        """Return the start in ns of Unix time."""
        return self._tree.start_ns[self._number] + self._tree.trace.info.wall_offset_ns

    @property
    def end_time_ns(self) -> int:
        """Return the end in ns of Unix time."""
        return self.start_time_ns + self.duration_time_ns

    @property
    def duration_time_ns(self) -> int:
        if self._number >= self._tree.slices:
            return 0
        return int(self._tree.trace.slices.duration_ns[self._number])

    @property
    def start_tid(self) -> int:
        trace, number = self._tree.trace, self._number
        of_slices = number < self._tree.slices
        tracks = trace.slices.track if of_slices else trace.memory.track
        track = trace.tracks[int(tracks[number if of_slices else number - self._tree.slices])]
        return track.logical_id if track.logical_id != NO_THREAD else int(track.tid)

    @property
    def id(self) -> int:
        """Return a number that is unique among the events."""
        return self._number + 1

    correlation_id = id
    finished = True
