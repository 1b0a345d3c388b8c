"""The events of a window, as the columns that a Trace is built from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stepscope import _native
from stepscope.record.details import args_of
from stepscope.record.inputs import spelled_inputs, with_inputs
from stepscope.record.stacks import with_stacks
from stepscope.trace.kinds import device_type_name
from stepscope.trace.model import (
    NO_THREAD,
    Args,
    Losses,
    Memory,
    Owners,
    Stacks,
    Track,
)
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings
from stepscope.trace.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.trace.model import UInt32

_Table = TypeVar("_Table", bound=Table)

_NO_INDEX = 0xFF


@dataclass(frozen=True, slots=True)
class Recorded:
    """The events of a closed window, when it was open, and what was dropped."""

    captured: Captured
    start_ns: int
    end_ns: int
    losses: Losses


def recorded(
    columns: Mapping[str, Any],
    thread_names: Mapping[int, str],
    *,
    stack_table: Callable[[UInt32], Any] = _native.stack_table,
    type_names: Sequence[str] | None = None,
) -> Recorded:
    """Convert the native columns of a closed window; ``thread_names`` is by system thread id.

    What numbers of stacks and types mean is asked of this process, unless another recorded them.
    """
    strings = Strings(columns["blob"], columns["offsets"])
    args = Args()
    if columns["detail"] is not None:
        strings, args = args_of(strings, columns["category"], columns["detail"])
    names = _native.type_names() if type_names is None else type_names
    strings, args = _with_inputs(strings, args, columns, names)
    stacks, stack = Stacks.empty(), columns["stack"]
    if stack is not None:
        strings, stacks, stack = with_stacks(strings, stack, stack_table)
    strings, memory = with_devices(strings, Memory, columns["memory"])
    strings, owners = with_devices(strings, Owners, columns["owners"])
    recorded_columns = {name: columns[name] for name in Slices.columns() if name in columns}
    slices = Slices.of(**{**recorded_columns, "stack": stack, "args": args})
    losses = Losses.at_limit(
        columns["lost"],
        columns["limit_bytes"],
        keep_newest=columns["keep_newest"],
        is_ring=columns["is_ring"],
    )
    captured = Captured(
        slices,
        _tracks(columns["threads"], thread_names),
        strings,
        stacks=stacks,
        memory=memory,
        owners=owners,
    )
    return Recorded(captured, columns["window_start_ns"], columns["window_end_ns"], losses)


def _with_inputs(
    strings: Strings, args: Args, columns: Mapping[str, Any], names: Sequence[str]
) -> tuple[Strings, Args]:
    """Add the inputs of all operators, or of the few that were drawn."""
    inputs, (rows, numbers) = columns["inputs"], columns["sampled_inputs"]
    are_sampled = inputs is None
    if are_sampled:
        if not len(rows):
            return strings, args
        inputs = np.zeros(len(columns["start_ns"]), np.uint32)
        inputs[rows] = numbers
    spelled = spelled_inputs(inputs, columns["input_texts"], names, are_sampled=are_sampled)
    return with_inputs(strings, args, inputs, spelled)


def with_devices(
    strings: Strings, table: type[_Table], columns: Mapping[str, Any]
) -> tuple[Strings, _Table]:
    """Return a table whose devices the core wrote as words, and the strings with their names."""
    if not len(columns["time_ns"]):
        return strings, table.empty()
    strings, device = _named_devices(strings, columns["device"])
    return strings, table.of(**{**columns, "device": device})


def _named_devices(strings: Strings, words: UInt32) -> tuple[Strings, UInt32]:
    """Return the string ids of devices that the core wrote as words, and the strings with them."""
    distinct, number = np.unique(words, return_inverse=True)
    names = [_device_name(word) for word in distinct.tolist()]
    id_of = strings.ids_of(names)
    missing = [name for name in names if name not in id_of]
    id_of |= {name: len(strings) + i for i, name in enumerate(missing)}
    ids = np.array([id_of[name] for name in names], np.uint32)
    return Strings.of([*strings, *missing]) if missing else strings, ids[number]


def _device_name(word: int) -> str:
    """Spell the core's word for a device: the kind as torch numbers it, and the number."""
    kind, index = word >> 8, word & 0xFF
    name = device_type_name(kind)
    return name if index == _NO_INDEX else f"{name}:{index}"


def _tracks(threads: list[tuple[int, int, bytes]], names: Mapping[int, str]) -> tuple[Track, ...]:
    return tuple(
        thread_track(
            os_id, logical_id or NO_THREAD, names.get(os_id) or name.decode("utf-8", "replace")
        )
        for os_id, logical_id, name in threads
    )


def thread_track(os_id: int, logical_id: int, name: str) -> Track:
    """Return the track of a thread of this process."""
    pid = os.getpid()
    return Track(
        pid=str(pid),
        tid=str(os_id),
        process_name="python",
        thread_name=name,
        process_sort=pid,
        thread_sort=os_id,
        logical_id=logical_id,
    )
