"""Converts the results of torch's own collector to plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope import _native
from stepscope.record.inputs import scalar_text
from stepscope.record.journal import fits
from stepscope.trace.keys import CONCRETE_INPUTS, INPUT_DIMS, INPUT_STRIDES, INPUT_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepscope.record.journal import Journal

_BACKWARD_FUNCTION = 1  # at::RecordScope
_USER_SCOPE = 7
_MEMORY = "[memory]"
_STRIDED = "torch.strided"
_ROWS_OF_AN_ENTRY = 4096


class Operator(NamedTuple):
    """An operator, or a range of the user's."""

    is_range: bool
    name: str
    overload: str
    start_ns: int
    duration_ns: int
    thread: int  # torch's thread number
    sequence: int  # negative if it has none
    forward_thread: int  # 0 if it has none
    is_backward: bool
    is_async: bool
    inputs: int  # the number of its inputs; negative if it has none


class Allocation(NamedTuple):
    """An allocation, or a release if the size is negative."""

    time_ns: int
    address: int
    size: int
    device: str
    thread: int
    allocated: int
    reserved: int


# The types of their fields, to check entries of a stream.
_OPERATOR = (bool, str, str, int, int, int, int, int, bool, bool, int)
_ALLOCATION = (int, int, int, str, int, int, int)


class Results(NamedTuple):
    """A recording of torch's collector, on our clock."""

    threads: Mapping[int, int]  # the system's thread id by torch's number
    operators: Sequence[Operator]
    inputs: Sequence[
        Mapping[str, Any]
    ]  # by number, without duplicates; the keys are those of torch's traces
    memory: Sequence[Allocation]

    def note(self, journal: Journal) -> None:
        journal.add({"threads": list(self.threads.items())})
        lists = {"operators": self.operators, "inputs": self.inputs, "memory": self.memory}
        for name, rows in lists.items():
            for at in range(0, len(rows), _ROWS_OF_AN_ENTRY):
                journal.add({name: rows[at : at + _ROWS_OF_AN_ENTRY]})


def plain_results(results: Any, *, shapes: bool, memory: bool) -> Results:
    """Convert the collector's event objects to plain data; their clock is Unix time."""
    events = [e for e in results.events() if str(e.device_type()).endswith("CPU")]
    shown = [e for e in events if not e.is_hidden_event() and e.name() != _MEMORY]
    tree = list(_walked(results.experimental_event_tree())) if shapes or memory else []
    offset_ns = _native.wall_offset_ns()
    inputs = _Inputs(tree)
    return Results(
        {event.start_thread_id(): event.device_resource_id() for event in events},
        _operators(shown, inputs if shapes else None, offset_ns),
        inputs.distinct,
        _memory(tree, offset_ns) if memory else [],
    )


def restored_results(entries: Sequence[Mapping[str, Any]]) -> Results:
    """Restore what ``note`` wrote, without malformed entries."""
    return Results(
        {pair[0]: pair[1] for pair in _rows(entries, "threads") if fits(pair, int, int)},
        [Operator(*row) for row in _rows(entries, "operators") if fits(row, *_OPERATOR)],
        [row if isinstance(row, dict) else {} for row in _rows(entries, "inputs")],
        [Allocation(*row) for row in _rows(entries, "memory") if fits(row, *_ALLOCATION)],
    )


def _rows(entries: Sequence[Mapping[str, Any]], name: str) -> Iterator[Any]:
    for entry in entries:
        rows = entry.get(name)
        yield from rows if isinstance(rows, list) else ()


def _operators(events: Sequence[Any], inputs: _Inputs | None, offset_ns: int) -> list[Operator]:
    return [
        Operator(
            event.scope() == _USER_SCOPE,
            event.name(),
            event.overload_name() if hasattr(event, "overload_name") else "",
            event.start_ns() - offset_ns,
            event.duration_ns(),
            event.start_thread_id(),
            event.sequence_nr(),
            event.fwd_thread_id(),
            event.scope() == _BACKWARD_FUNCTION,
            event.is_async(),
            -1 if inputs is None else inputs.number_of(event),
        )
        for event in events
    ]


def _walked(tree: Sequence[Any]) -> Iterator[Any]:
    waiting = list(tree)
    while waiting:
        event = waiting.pop()
        yield event
        waiting.extend(event.children)


# ---- inputs


class _Inputs:
    """The inputs of operators, in the bridge's spelling."""

    def __init__(self, tree: Sequence[Any]) -> None:
        self._tensors = {
            event.correlation_id: event.typed[1].inputs
            for event in tree
            if str(event.tag).endswith("TorchOp")
        }
        self._numbers: dict[str, int] = {}
        self.distinct: list[dict[str, Any]] = []

    def number_of(self, event: Any) -> int:
        """Return the number of an operator's inputs; negative if it has none."""
        types = event.dtypes()
        if not types or event.scope() == _USER_SCOPE:
            return -1
        tensors = self._tensors.get(event.correlation_id()) or [None] * len(types)
        pairs = _pairs(types, event.concrete_inputs(), tensors)
        number = self._numbers.setdefault(repr(pairs), len(self.distinct))
        if number == len(self.distinct):
            self.distinct.append(pairs)
        return number


def _pairs(types: Sequence[str], values: Sequence[Any], tensors: Sequence[Any]) -> dict[str, Any]:
    dims, strides, words = [], [], []
    for kind, value, tensor in zip(types, values, tensors, strict=True):
        dims.append(_of_tensors(kind, tensor, _dims))
        strides.append(_of_tensors(kind, tensor, _strides))
        words.append(_word(kind, value))
    return {
        CONCRETE_INPUTS: words,
        INPUT_TYPES: types,
        INPUT_STRIDES: strides,
        INPUT_DIMS: dims,
    }


def _of_tensors(kind: str, tensor: Any, numbers: Any) -> list[Any]:
    if kind == "TensorList":
        return [numbers(member) for member in tensor or ()]
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


def _memory(tree: Sequence[Any], offset_ns: int) -> list[Allocation]:
    """Return the allocations; blocks of the host from before the recording do not count."""
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
        time_ns = event.start_time_ns - offset_ns
        rows.append(Allocation(time_ns, address, size, str(what.device), event.start_tid, *totals))
    return rows
