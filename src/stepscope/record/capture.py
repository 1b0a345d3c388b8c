"""The events of a closed window: their args, inputs, devices and stacks become tables."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stepscope import _native
from stepscope.record.inputs import spelled_inputs, with_inputs
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import stated_fragment
from stepscope.trace.kinds import device_type_name
from stepscope.trace.model import (
    NO_THREAD,
    Args,
    IntColumn,
    Losses,
    Memory,
    Owners,
    Stacks,
    Track,
)
from stepscope.trace.schema import Captured, Slices, Uses
from stepscope.trace.strings import Strings
from stepscope.trace.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.trace.model import Bool, UInt32

_Table = TypeVar("_Table", bound=Table)

_NO_INDEX = 0xFF
_RANGE_CATEGORY = "user_annotation"
_STATED = re.compile(stated_fragment("[A-Za-z]+"))


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

    Stacks and types are looked up in this process, unless tables of another one are given.
    """
    strings = Strings(columns["blob"], columns["offsets"])
    args = Args()
    if columns["detail"] is not None:
        strings, args = _args_of(strings, columns["category"], columns["detail"])
    names = _native.type_names() if type_names is None else type_names
    strings, args = _with_inputs(strings, args, columns, names)
    stacks, stack = Stacks.empty(), columns["stack"]
    if stack is not None:
        strings, stacks, stack = _with_stacks(strings, stack, stack_table)
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
        uses=Uses.of(**columns["uses"]) if len(columns["uses"]["time_ns"]) else Uses.empty(),
    )
    return Recorded(captured, columns["window_start_ns"], columns["window_end_ns"], losses)


def _args_of(strings: Strings, category: UInt32, detail: UInt32) -> tuple[Strings, Args]:
    """Return the args of all slices, and the strings with those that the args need.

    The detail of a user's range is any text, or the fragment with its event type; that of
    everything else is the inside of a JSON object, whose integers become columns.
    """
    texts = list(strings)
    is_range = category == strings.ids_of({_RANGE_CATEGORY}).get(_RANGE_CATEGORY, 0)
    id_of_text: dict[str, int] = {}
    rest = np.zeros(len(detail), np.uint32)
    integers: dict[str, IntColumn] = {}

    def interned(fragment: str) -> int:
        if not fragment:
            return 0
        if fragment not in id_of_text:
            id_of_text[fragment] = len(texts)
            texts.append(fragment)
        return id_of_text[fragment]

    ranges = np.where(is_range, detail, 0)
    fragment_id = np.zeros(len(texts), np.uint32)
    for text_id in _distinct(ranges):
        text = texts[text_id]
        fragment_id[text_id] = interned(
            text if _STATED.fullmatch(text) else f'"args": {_dumps(text)}'
        )
    rest[is_range] = fragment_id[ranges[is_range]]

    others = np.where(is_range, 0, detail)
    pairs = {int(i): pairs_of(texts[i]) for i in _distinct(others)}
    if pairs:
        fragment_id = np.zeros(len(fragment_id), np.uint32)
        for text_id, values in pairs.items():
            fragment_id[text_id] = interned(_without_integers(values))
        rest[~is_range] = fragment_id[others[~is_range]]
        integers = _integer_columns(pairs, others, len(fragment_id))
    return Strings.of(texts), Args(integers, rest)


def _distinct(ids: UInt32) -> list[int]:
    return [int(i) for i in np.unique(ids) if i]


def _dumps(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # A lone surrogate, from an escape, has no UTF-8 form: it stays an escape.
    return text if text.isascii() or _is_valid(text) else json.dumps(value)


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _without_integers(pairs: dict[str, Any]) -> str:
    others = {key: value for key, value in pairs.items() if not _is_integer(value)}
    return _dumps(others)[1:-1]


def _integer_columns(
    pairs: dict[int, dict[str, Any]], detail: UInt32, texts: int
) -> dict[str, IntColumn]:
    columns: dict[str, IntColumn] = {}
    keys = {key for values in pairs.values() for key, value in values.items() if _is_integer(value)}
    for key in sorted(keys):
        value_of = np.zeros(texts, np.int64)
        has_key: Bool = np.zeros(texts, np.bool_)
        for text_id, values in pairs.items():
            if key in values and _is_integer(values[key]):
                value_of[text_id], has_key[text_id] = values[key], True
        rows = np.flatnonzero(has_key[detail])
        columns[key] = IntColumn(rows.astype(np.uint32), value_of[detail[rows]])
    return columns


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


def _with_stacks(
    strings: Strings,
    numbers: UInt32,
    stack_table: Callable[[UInt32], Any],
) -> tuple[Strings, Stacks, UInt32]:
    """Return the strings with the frames' texts, the table of stacks, and each slice's row in it.

    ``numbers`` are the recorder's: they are valid until ``_native.clear_stacks()``.
    """
    rows, parent, frame, texts = stack_table(numbers)
    # Row 0 is the empty stack, and string 0 the empty text; the others are appended to our strings.
    frame[1:] += np.uint32(len(strings) - 1)
    return Strings.of([*strings, *texts[1:]]), Stacks(parent, frame), rows


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
